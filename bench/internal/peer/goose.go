package peer

import (
	"context"
	"database/sql"
	"errors"

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
