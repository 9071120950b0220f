//pglock:allow what the monitor shows includes locks that are taken by hand

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/pglock-toolkit/pglock/internal/pgserver"
	"github.com/pglock-toolkit/pglock/migrations"
)

// scene is a server with locks. The holders share the locks, and the waiters wait in ten queues.
type scene struct {
	name, what               string
	locks, sessions, waiters int
	named                    bool
	once                     bool // each snapshot is the first of its program
	target                   time.Duration
}

const queues = 10

// holders are the connections of a scene, and the waits on them.
type holders struct {
	conns  []*pgx.Conn
	cancel context.CancelFunc
	queues *errgroup.Group
}

func (s scene) setUp(ctx context.Context, server *pgserver.Server) (_ *holders, err error) {
	h := &holders{queues: &errgroup.Group{}}
	ctx, h.cancel = context.WithCancel(ctx)
	defer func() {
		if err != nil {
			err = errors.Join(err, h.close())
		}
	}()
	connString := server.ConnString(pgserver.Superuser)
	if s.named {
		if err := install(ctx, connString, s.locks); err != nil {
			return nil, err
		}
	}
	for i := range s.sessions {
		conn, err := pgx.Connect(ctx, connString)
		if err != nil {
			return nil, err
		}
		h.conns = append(h.conns, conn)
		if i < s.sessions-s.waiters {
			err = s.hold(ctx, conn, i)
		} else {
			h.queues.Go(func() error { return s.wait(ctx, conn, i%queues) })
		}
		if err != nil {
			return nil, err
		}
	}
	return h, s.await(ctx, connString)
}

// install registers the names of all locks.
func install(ctx context.Context, connString string, names int) error {
	pool, err := pgxpool.New(ctx, connString)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := migrations.Up(ctx, pool); err != nil {
		return err
	}
	if _, err = pool.Exec(ctx, "SELECT pglock.register('job ' || n) FROM generate_series(0, $1::int - 1) n", names); err != nil {
		return err
	}
	_, err = pool.Exec(ctx, "ANALYZE pglock.names")
	return err
}

// key returns SQL for the n-th key.
func (s scene) key() string {
	if s.named {
		return "pglock.key('job ' || n)"
	}
	return "n"
}

// hold takes the i-th holder's share of the locks.
func (s scene) hold(ctx context.Context, conn *pgx.Conn, i int) error {
	holding := s.sessions - s.waiters
	first, next := i*s.locks/holding, (i+1)*s.locks/holding
	_, err := conn.Exec(ctx, fmt.Sprintf("SELECT count(pg_advisory_lock(%s)) FROM generate_series(%d, %d) n",
		s.key(), first, next-1))
	return err
}

// wait waits in a queue until ctx ends.
func (s scene) wait(ctx context.Context, conn *pgx.Conn, queue int) error {
	_, err := conn.Exec(ctx, fmt.Sprintf("SELECT pg_advisory_lock(%s) FROM (VALUES (%d)) AS one (n)", s.key(), queue))
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// await polls until all locks are held and waited for.
func (s scene) await(ctx context.Context, connString string) (err error) {
	conn, err := pgx.Connect(ctx, connString)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	for {
		var held, waiting int
		err := conn.QueryRow(ctx, "SELECT count(*) FILTER (WHERE granted), count(*) FILTER (WHERE NOT granted) "+
			"FROM pg_locks WHERE locktype = 'advisory'").Scan(&held, &waiting)
		if err != nil || held == s.locks && waiting == s.waiters {
			return err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%d locks are held and %d waited for: %w", held, waiting, ctx.Err())
		}
	}
}

// close ends the waits, and the sessions.
func (h *holders) close() error {
	h.cancel()
	err := h.queues.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, conn := range h.conns {
		if !conn.IsClosed() { // as after a wait
			err = errors.Join(err, conn.Close(ctx))
		}
	}
	return err
}
