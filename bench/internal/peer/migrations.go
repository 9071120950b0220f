package peer

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/golang-migrate/migrate/v4/database"
	migratepgx "github.com/golang-migrate/migrate/v4/database/pgx/v5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3/lock"
)

func openDatabase(at Addresses, most int) (*sql.DB, error) {
	config, err := pgx.ParseConfig(at.Postgres)
	if err != nil {
		return nil, err
	}
	db := stdlib.OpenDB(*config)
	db.SetMaxOpenConns(most)
	db.SetMaxIdleConns(most)
	return db, nil
}

// gooseOffset keeps goose's locks apart from others of the same number.
const gooseOffset = 1 << 40

func openGoose(_ context.Context, at Addresses) (*Peer, error) {
	db, err := openDatabase(at, PoolSize)
	if err != nil {
		return nil, err
	}
	var lockers perWorker[lock.SessionLocker]
	return &Peer{
		Lock: func(ctx context.Context, worker int, _ int64) (unlock, error) {
			one, err := lockers.get(worker, func() (lock.SessionLocker, error) {
				return lock.NewPostgresSessionLocker(lock.WithLockID(gooseOffset + int64(worker)))
			})
			if err != nil {
				return nil, err
			}
			conn, err := db.Conn(ctx)
			if err != nil {
				return nil, err
			}
			if err := one.SessionLock(ctx, conn); err != nil {
				return nil, errors.Join(err, conn.Close())
			}
			return func(ctx context.Context) error { return errors.Join(one.SessionUnlock(ctx, conn), conn.Close()) }, nil
		},
		Close: db.Close,
	}, nil
}

func openGooseTable(_ context.Context, at Addresses) (*Peer, error) {
	db, err := openDatabase(at, PoolSize)
	if err != nil {
		return nil, err
	}
	var lockers perWorker[lock.Locker]
	return &Peer{
		Lock: func(ctx context.Context, worker int, _ int64) (unlock, error) {
			one, err := lockers.get(worker, func() (lock.Locker, error) {
				return lock.NewPostgresTableLocker(lock.WithTableLockID(int64(worker) + 1))
			})
			if err != nil {
				return nil, err
			}
			if err := one.Lock(ctx, db); err != nil {
				return nil, err
			}
			return func(ctx context.Context) error { return one.Unlock(ctx, db) }, nil
		},
		Close: db.Close,
	}, nil
}

// openMigrate makes a driver for each worker: the key is made of the name of the table with the migrations.
func openMigrate(_ context.Context, at Addresses) (*Peer, error) {
	var drivers perWorker[database.Driver]
	return &Peer{
		Lock: func(_ context.Context, worker int, _ int64) (unlock, error) {
			d, err := drivers.get(worker, func() (database.Driver, error) {
				db, err := openDatabase(at, 1)
				if err != nil {
					return nil, err
				}
				return migratepgx.WithInstance(db, &migratepgx.Config{MigrationsTable: fmt.Sprintf("migrations_%d", worker)})
			})
			if err != nil {
				return nil, err
			}
			if err := d.Lock(); err != nil {
				return nil, err
			}
			return func(context.Context) error { return d.Unlock() }, nil
		},
		Close: func() error { return drivers.close(database.Driver.Close) },
	}, nil
}
