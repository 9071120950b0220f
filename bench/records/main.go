// Command records compares the parts of pglock that keep records with the alternatives: rate limits on PostgreSQL and
// Redis, and package once. It starts temporary servers, and prints a table of figures and ratios that marks each target
// as reached or missed.
//
//	go run ./records [-only REGEXP] [-rounds N] [-slice DURATION] [-json] [-cpuprofile FILE]
//
// The row of package once fills two tables with PGLOCK_BENCH_RECORDS records each, by default 10,000,000, which takes
// some minutes and some gigabytes of disk.
package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/pglock-toolkit/pglock/bench/internal/contest"
	"github.com/pglock-toolkit/pglock/bench/internal/report"
	"github.com/pglock-toolkit/pglock/bench/internal/suite"
	"github.com/pglock-toolkit/pglock/internal/pgserver"
	"github.com/pglock-toolkit/pglock/internal/redisserver"
	"github.com/pglock-toolkit/pglock/migrations"
)

func main() {
	suite.Suite[*lab]{Name: "records", Peer: "peer", Rows: rows, Open: newLab}.Main()
}

// rows are the table, in its order.
var rows = []suite.Row[*lab]{
	{Name: "rate-postgres", What: "512 callers on 16 keys, against the same upsert per call", Run: rateOnPostgres},
	{Name: "rate-redis", What: "512 callers on 16 keys, against redis_rate", Run: rateOnRedis},
	{Name: "once", What: "a transaction with package once, against INSERT … ON CONFLICT", Run: doOnce},
	{Name: "fence", What: "a lock with a fencing token, against one with a plain nextval", Run: fence},
}

// lab holds the servers and the other resources of the rows.
type lab struct {
	server *pgserver.Server
	redis  *redisserver.Server
	pool   *pgxpool.Pool
	client *redis.Client
	plan   contest.Plan
}

const connections = 32

func newLab(ctx context.Context, f suite.Flags) (_ *lab, err error) {
	l := &lab{plan: f.Plan}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Close())
		}
	}()
	if l.server, err = pgserver.Start(ctx, pgserver.Options{Settings: map[string]string{
		"shared_buffers": "512MB", "max_wal_size": "8GB", "max_connections": "100",
	}}); err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig(l.server.ConnString(pgserver.Superuser))
	if err != nil {
		return nil, err
	}
	config.MaxConns = connections
	if l.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, err
	}
	if err := migrations.Up(ctx, l.pool); err != nil {
		return nil, err
	}
	if l.redis, err = redisserver.Start(); err != nil {
		return nil, err
	}
	l.client = redis.NewClient(&redis.Options{Addr: l.redis.Addr(), PoolSize: connections})
	return l, l.client.Ping(ctx).Err()
}

// Close implements [suite.Lab].
func (l *lab) Close() (err error) {
	if l.pool != nil {
		l.pool.Close()
	}
	if l.client != nil {
		err = l.client.Close()
	}
	if l.redis != nil {
		err = errors.Join(err, l.redis.Stop())
	}
	if l.server != nil {
		err = errors.Join(err, l.server.Stop())
	}
	return err
}

// About implements [suite.Lab].
func (l *lab) About() (title string, about map[string]string) {
	about = map[string]string{
		"redis":      l.redis.Version(),
		"pgx":        suite.ModuleVersion("github.com/jackc/pgx/v5"),
		"redis_rate": suite.ModuleVersion("github.com/go-redis/redis_rate/v10"),
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var version string
	if err := l.pool.QueryRow(ctx, "SELECT current_setting('server_version')").Scan(&version); err != nil {
		version = err.Error()
	}
	about["postgres"] = version
	title = fmt.Sprintf("PostgreSQL %s, Redis %s, %s %s/%s, pgx %s, redis_rate %s", version, about["redis"],
		runtime.Version(), runtime.GOOS, runtime.GOARCH, about["pgx"], about["redis_rate"])
	return title, about
}

// against returns a line that compares two series.
func against(what string, unit report.Unit, ours, theirs contest.Series) report.Line {
	return report.Line{
		What: what, Ours: report.Figure{Value: ours.Median(), Unit: unit},
		Peer: report.Figure{Value: theirs.Median(), Unit: unit}, Ratio: report.RatioOf(ours, theirs),
	}
}
