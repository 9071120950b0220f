package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/bench/internal/suite"
	"github.com/pglock-toolkit/pglock/internal/pgserver"
	"github.com/pglock-toolkit/pglock/internal/redisserver"
	"github.com/pglock-toolkit/pglock/migrations"
)

// lab has the servers that several kinds share. Others belong to their kind.
type lab struct {
	postgres *pgserver.Server
	redis    *redisserver.Server
	servers  map[string]*redisserver.Server
	closers  []func() error
}

// openLab starts a PostgreSQL that waits for its disk, as it does in production, and a Redis.
func openLab(ctx context.Context) (_ *lab, err error) {
	l := &lab{}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close())
		}
	}()
	settings := map[string]string{"max_connections": "500", "max_locks_per_transaction": "512", "fsync": "on"}
	if l.postgres, err = pgserver.Start(ctx, pgserver.Options{Settings: settings}); err != nil {
		return nil, err
	}
	l.later(l.postgres.Stop)
	if l.redis, err = l.shared("redis", 0); err != nil {
		return nil, err
	}
	pool, err := pgxpool.New(ctx, l.dsn())
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	return l, migrations.Up(ctx, pool)
}

func (l *lab) dsn() string { return l.postgres.ConnString(pgserver.Superuser) }

// later calls do when the lab is closed.
func (l *lab) later(do func() error) { l.closers = append(l.closers, do) }

func (l *lab) close() (err error) {
	for i := range l.closers {
		err = errors.Join(err, l.closers[len(l.closers)-1-i]())
	}
	return err
}

func (l *lab) about() string {
	return fmt.Sprintf("%s: PostgreSQL %s, Redis %s, %s, %d processors", time.Now().Format("2 January 2006"),
		l.postgres.Binaries().Version, l.redis.Version(), runtime.Version(), runtime.NumCPU()) + "\n" +
		"goose " + suite.ModuleVersion("github.com/pressly/goose/v3") +
		", golang-migrate " + suite.ModuleVersion("github.com/golang-migrate/migrate/v4") +
		", rueidislock " + suite.ModuleVersion("github.com/redis/rueidis") +
		",\nredsync " + suite.ModuleVersion("github.com/go-redsync/redsync/v4") +
		", bsm/redislock " + suite.ModuleVersion("github.com/bsm/redislock")
}
