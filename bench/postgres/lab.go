package main

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/bench/internal/contest"
	"github.com/pglock-toolkit/pglock/bench/internal/suite"
	"github.com/pglock-toolkit/pglock/internal/pgserver"
	"github.com/pglock-toolkit/pglock/pglock"
)

// settings are the server's settings; the others are PostgreSQL's defaults. The lock table has room for every
// row.
var settings = map[string]string{
	"max_connections":           "300",
	"max_locks_per_transaction": "512",
	"autovacuum":                "off", // it has nothing to do here, and would only disturb the measurement
}

// ourApplication marks the connections of the Locker in pg_stat_activity.
const ourApplication = "bench pglock"

// lab holds the server and the other resources of the rows.
type lab struct {
	server  *pgserver.Server
	admin   *pgx.Conn
	plan    contest.Plan
	showCPU bool
	watch   time.Duration // how long the row of the waiters watches the server
	drawTo  string        // output file of the row growth
	most    int           // goroutines, locks held and waiters of a row
	timer   *time.Ticker  // makes all waiting processes wake equally fast: a Go process with a timer wakes faster than one without
}

const timerInterval = 2 * time.Millisecond

func newLab(ctx context.Context, f suite.Flags) (*lab, error) {
	server, err := pgserver.Start(ctx, pgserver.Options{Settings: settings})
	if err != nil {
		return nil, err
	}
	l := &lab{server: server, plan: f.Plan, showCPU: f.ShowCPU, watch: 6 * time.Second, drawTo: "growth.svg", most: 100_000,
		timer: time.NewTicker(timerInterval)}
	go func() {
		for range l.timer.C { // the same for all contestants; it ends with the process
		}
	}()
	if l.admin, err = pgx.Connect(ctx, l.connString()); err != nil {
		return nil, errors.Join(err, server.Stop())
	}
	return l, nil
}

// Close implements [suite.Lab].
func (l *lab) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	l.timer.Stop()
	return errors.Join(l.admin.Close(ctx), l.server.Stop())
}

func (l *lab) connString() string { return l.server.ConnString(pgserver.Superuser) }

// poolConfig configures a pool of size connections, dialled with dial unless that is nil.
func (l *lab) poolConfig(size int, dial dialFunc) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(l.connString())
	if err != nil {
		return nil, err
	}
	config.MaxConns = int32(size)
	if dial != nil {
		config.ConnConfig.DialFunc = dial
	}
	return config, nil
}

// locker opens a Locker with its defaults, and opts.
func (l *lab) locker(ctx context.Context, dial dialFunc, opts ...pglock.Option) (*pglock.Locker, error) {
	config, err := l.poolConfig(1, dial)
	if err != nil {
		return nil, err
	}
	locker, err := pglock.NewWithConfig(config, append(opts, pglock.WithApplicationName(ourApplication))...)
	if err != nil {
		return nil, err
	}
	if err := locker.Ping(ctx); err != nil {
		return nil, errors.Join(err, closeLocker(locker))
	}
	return locker, nil
}

func closeLocker(locker *pglock.Locker) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return locker.Close(ctx)
}

// ourConnections counts the Locker's connections on the server.
func (l *lab) ourConnections(ctx context.Context) (n int, err error) {
	err = l.admin.QueryRow(ctx, "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE $1", ourApplication+" (pglock %").
		Scan(&n)
	return n, err
}
