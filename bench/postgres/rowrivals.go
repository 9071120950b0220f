package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	migratepgx "github.com/golang-migrate/migrate/v4/database/pgx"
	_ "github.com/jackc/pgx/v4/stdlib" // the driver of golang-migrate's table locks
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3/lock"

	"github.com/pglock-toolkit/pglock/bench/internal/contest"
	"github.com/pglock-toolkit/pglock/bench/internal/report"
	"github.com/pglock-toolkit/pglock/internal/pgserver"
	"github.com/pglock-toolkit/pglock/pglock"
)

// rowRivals compares with the table locks of goose and golang-migrate, a lock each for a few goroutines. These are made for a
// lock that is held for a migration, so their rate matters little; the row shows what a lock costs. They prepare statements,
// so all go to the server directly.
func rowRivals(ctx context.Context, l *lab, r *rowLab) (_ []report.Line, err error) {
	const goroutines = 4
	address := r.server.ConnString(pgserver.Superuser)
	locker, err := openRows(ctx, address, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeLocker(locker)) }()
	config, err := pgx.ParseConfig(address)
	if err != nil {
		return nil, err
	}
	db := stdlib.OpenDB(*config)
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxIdleConns(goroutines)
	gooses, err := gooseTables(goroutines)
	if err != nil {
		return nil, err
	}
	migrates, closeMigrates, err := migrateTables(address, goroutines)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeMigrates()) }()
	var ours, gooseCosts, migrateCosts costs
	all, err := contest.Run(ctx, l.plan,
		contest.Contestant{Name: "rowlock", Measure: r.metered(&ours, contest.Rate(goroutines, func(ctx context.Context, worker, _ int) error {
			lock, err := locker.Lock(ctx, pglock.Int64Key(int64(worker)))
			if err != nil {
				return err
			}
			return lock.Unlock(ctx)
		}))},
		contest.Contestant{Name: "goose", Measure: r.metered(&gooseCosts, contest.Rate(goroutines, func(ctx context.Context, worker, _ int) error {
			if err := gooses[worker].Lock(ctx, db); err != nil {
				return err
			}
			return gooses[worker].Unlock(ctx, db)
		}))},
		contest.Contestant{Name: "golang-migrate", Measure: r.metered(&migrateCosts, contest.Rate(goroutines, func(_ context.Context, worker, _ int) error {
			if err := migrates[worker].Lock(); err != nil {
				return err
			}
			return migrates[worker].Unlock()
		}))})
	if err != nil {
		return nil, err
	}
	return []report.Line{
		compared("4 goroutines, and goose's", report.PerSecond, all[0], all[1]),
		compared("  CPU for each", report.Seconds, ours.total(), gooseCosts.total()),
		beside("  golang-migrate's", all[0], all[2]),
		compared("  CPU for each", report.Seconds, ours.total(), migrateCosts.total()),
	}, nil
}

// total is the processor time of client and server.
func (c *costs) total() (all contest.Series) {
	for i := range c.client {
		all = append(all, c.client[i]+c.server[i])
	}
	return all
}

// gooseTables are locks of goose in its table.
func gooseTables(n int) (lockers []lock.Locker, err error) {
	for i := range n {
		l, err := lock.NewPostgresTableLocker(lock.WithTableLockID(int64(i+1)), lock.WithTableLockTimeout(time.Second, 5))
		if err != nil {
			return nil, err
		}
		lockers = append(lockers, l)
	}
	return lockers, nil
}

// migrateTables are drivers of golang-migrate. Each locks one row, which is the same for all of a table, so each has its own.
func migrateTables(address string, n int) (drivers []interface {
	Lock() error
	Unlock() error
}, closeAll func() error, err error) {
	var dbs []*sql.DB
	closeAll = func() (err error) {
		for _, db := range dbs {
			err = errors.Join(err, db.Close())
		}
		return err
	}
	for i := range n {
		db, err := sql.Open("pgx/v4", address)
		if err != nil {
			return nil, nil, errors.Join(err, closeAll())
		}
		dbs = append(dbs, db)
		d, err := migratepgx.WithInstance(db, &migratepgx.Config{
			LockStrategy: migratepgx.LockStrategyTable, LockTable: fmt.Sprintf("schema_lock_%d", i),
		})
		if err != nil {
			return nil, nil, errors.Join(err, closeAll())
		}
		drivers = append(drivers, d)
	}
	return drivers, closeAll, nil
}
