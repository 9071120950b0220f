// Package lab starts the servers that the benchmarks measure on, with PostgreSQL as it is in production: it waits for its
// disk, and has the schema.
package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/bench/internal/peer"
	"github.com/pglock-toolkit/pglock/internal/pgserver"
	"github.com/pglock-toolkit/pglock/internal/redisserver"
	"github.com/pglock-toolkit/pglock/migrations"
)

// settings are PostgreSQL's; the others are its defaults. The lock table has room for every row.
var settings = map[string]string{
	"fsync":                     "on",
	"max_connections":           "600",
	"max_locks_per_transaction": "512",
	"autovacuum":                "off", // it would only disturb the measurement
}

// Lab is a PostgreSQL, a PgBouncer in transaction mode with four connections to it, and a Redis.
type Lab struct {
	// At are the addresses of the servers.
	At peer.Addresses
	// Pool connects to PostgreSQL.
	Pool *pgxpool.Pool

	postgres *pgserver.Server
	redis    *redisserver.Server
	closers  []func() error
}

// Open starts the servers. The caller must call [Lab.Close].
func Open(ctx context.Context) (_ *Lab, err error) {
	l := &Lab{}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Close())
		}
	}()
	if l.postgres, err = pgserver.Start(ctx, pgserver.Options{Settings: settings}); err != nil {
		return nil, err
	}
	l.later(l.postgres.Stop)
	l.At.Postgres = l.postgres.ConnString(pgserver.Superuser)
	if l.redis, err = l.startRedis(); err != nil {
		return nil, err
	}
	l.At.Redis = l.redis.Addr()
	if l.Pool, err = pgxpool.New(ctx, l.At.Postgres); err != nil {
		return nil, err
	}
	l.later(func() error { l.Pool.Close(); return nil })
	if err := migrations.Up(ctx, l.Pool); err != nil {
		return nil, err
	}
	return l, l.startPooler(ctx)
}

func (l *Lab) startPooler(ctx context.Context) error {
	config, err := pgx.ParseConfig(l.At.Postgres)
	if err != nil {
		return err
	}
	pooler, err := pgserver.StartPooler(ctx, pgserver.PoolerOptions{Server: config, Mode: "transaction", Size: 4})
	if err != nil {
		return err
	}
	l.later(pooler.Stop)
	l.At.Pooler = pooler.ConnString()
	return nil
}

func (l *Lab) startRedis(directives ...string) (*redisserver.Server, error) {
	return l.keep(redisserver.Start(directives...))
}

// keep stops a server with the lab.
func (l *Lab) keep(server *redisserver.Server, err error) (*redisserver.Server, error) {
	if err == nil {
		l.later(server.Stop)
	}
	return server, err
}

func (l *Lab) later(do func() error) { l.closers = append(l.closers, do) }

// Close stops the servers.
func (l *Lab) Close() (err error) {
	for i := range l.closers {
		err = errors.Join(err, l.closers[len(l.closers)-1-i]())
	}
	return err
}

// About returns the conditions of a run: the machine, and the versions of what is compared.
func (l *Lab) About() map[string]string {
	about := map[string]string{
		"PostgreSQL": l.postgres.Binaries().Version, "Redis": l.redis.Version(), "Go": runtime.Version(),
		"processors": fmt.Sprint(runtime.NumCPU()), "load before": loadAverage(),
	}
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if name, compared := modules[module.Path]; compared {
			about[name] = module.Version
		}
	}
	return about
}

var modules = map[string]string{
	"github.com/jackc/pgx/v5": "pgx", "github.com/pressly/goose/v3": "goose",
	"github.com/redis/go-redis/v9": "go-redis", "github.com/redis/rueidis": "rueidislock", "github.com/go-redsync/redsync/v4": "redsync",
	"github.com/bsm/redislock": "bsm/redislock", "github.com/go-redis/redis_rate/v10": "redis_rate",
}

// loadAverage returns how busy the machine has been: other load disturbs the measurement.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first
}
