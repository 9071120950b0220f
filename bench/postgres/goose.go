package main

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3/lock"

	"github.com/pglock-toolkit/pglock/bench/internal/contest"
)

// gooseLockers are goose's session lockers. Each has one key, so there is one for each worker; their connections
// come from a pool of database/sql.
type gooseLockers struct {
	db      *sql.DB
	lockers []lock.SessionLocker
}

func (l *lab) gooseLockers(workers, connections int) (*gooseLockers, error) {
	config, err := l.poolConfig(connections, nil)
	if err != nil {
		return nil, err
	}
	g := &gooseLockers{lockers: make([]lock.SessionLocker, workers)}
	for worker := range g.lockers {
		if g.lockers[worker], err = lock.NewPostgresSessionLocker(lock.WithLockID(distinctKey(worker, 0))); err != nil {
			return nil, err
		}
	}
	g.db = stdlib.OpenDB(*config.ConnConfig)
	g.db.SetMaxOpenConns(connections)
	g.db.SetMaxIdleConns(connections)
	return g, nil
}

func (g *gooseLockers) pairs() contest.Work {
	return func(ctx context.Context, worker, _ int) (err error) {
		conn, err := g.db.Conn(ctx)
		if err != nil {
			return err
		}
		defer func() {
			if closeErr := conn.Close(); err == nil {
				err = closeErr
			}
		}()
		if err := g.lockers[worker].SessionLock(ctx, conn); err != nil {
			return err
		}
		return g.lockers[worker].SessionUnlock(ctx, conn)
	}
}

func (g *gooseLockers) close() error { return g.db.Close() }
