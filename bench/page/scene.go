//pglock:allow what the monitor shows includes locks that are taken by hand

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

const (
	locks   = 5000
	holders = 100
	waiters = 40
	changes = 250 // a second; every second one is a new key
)

// scene is the activity on the server until close.
type scene struct {
	cancel context.CancelFunc
	group  *errgroup.Group
	conns  []*pgx.Conn
}

func begin(ctx context.Context, dsn string) (_ *scene, err error) {
	ctx, cancel := context.WithCancel(ctx)
	s := &scene{cancel: cancel, group: &errgroup.Group{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	for i := range holders {
		conn, err := s.dial(ctx, dsn, fmt.Sprintf("worker-%d", i))
		if err != nil {
			return nil, err
		}
		const each = locks / holders
		if _, err := conn.Exec(ctx, fmt.Sprintf("SELECT count(pg_advisory_lock(n)) FROM generate_series(%d, %d) n",
			i*each, (i+1)*each-1)); err != nil {
			return nil, err
		}
		s.group.Go(func() error { return change(ctx, conn, int64(i)) })
	}
	for i := range waiters {
		conn, err := s.dial(ctx, dsn, fmt.Sprintf("waiter-%d", i))
		if err != nil {
			return nil, err
		}
		s.group.Go(func() error {
			_, err := conn.Exec(ctx, fmt.Sprintf("SELECT pg_advisory_lock(%d)", i%8*locks/holders))
			return ended(ctx, err)
		})
	}
	return s, nil
}

func (s *scene) dial(ctx context.Context, dsn, name string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	config.RuntimeParams["application_name"] = name
	conn, err := pgx.ConnectConfig(ctx, config)
	if err == nil {
		s.conns = append(s.conns, conn)
	}
	return conn, err
}

// change releases a lock and takes another, alternately an old and a new one, at a pace at which all holders together
// make the wanted number of changes.
func change(ctx context.Context, conn *pgx.Conn, number int64) error {
	tick := time.NewTicker(2 * holders * time.Second / changes)
	defer tick.Stop()
	const each = locks / holders
	last := number*each + 1 // the first has waiters
	for i := int64(1); ; i++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		next := number*each + 1 + i%(each-1)
		if i%2 == 0 {
			next = rand.Int64()
		}
		_, err := conn.Exec(ctx, fmt.Sprintf("SELECT pg_advisory_unlock(%d), pg_advisory_lock(%d)", last, next))
		if err != nil {
			return ended(ctx, err)
		}
		last = next
	}
}

func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (s *scene) close() error {
	s.cancel()
	err := s.group.Wait()
	for _, conn := range s.conns {
		if !conn.IsClosed() {
			err = errors.Join(err, conn.Close(context.Background()))
		}
	}
	return err
}
