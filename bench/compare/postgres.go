//pglock:allow pglock is measured beside locks that are taken by hand

package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/golang-migrate/migrate/v4/database"
	migratepgx "github.com/golang-migrate/migrate/v4/database/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3/lock"

	"github.com/pglock-toolkit/pglock/bench/internal/redispeer"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/rowlock"
)

// connections is how many a kind has that needs one for each lock.
const connections = 64

func (l *lab) pool(ctx context.Context) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(l.dsn())
	if err != nil {
		return nil, err
	}
	config.MaxConns = connections
	return pgxpool.NewWithConfig(ctx, config)
}

func closing(pool *pgxpool.Pool) func() error {
	return func() error { pool.Close(); return nil }
}

// named makes a locker of a peer, which has names instead of numbers.
func named(p *redispeer.Peer) *locker {
	return &locker{
		lock: func(ctx context.Context, number int) (func() error, error) {
			return p.Lock(ctx, "key:"+strconv.Itoa(number))
		},
		close: p.Close,
	}
}

func openTx(ctx context.Context, l *lab) (*locker, error) {
	pool, err := l.pool(ctx)
	if err != nil {
		return nil, err
	}
	return &locker{
		lock: func(ctx context.Context, number int) (func() error, error) {
			tx, err := pool.Begin(ctx)
			if err != nil {
				return nil, err
			}
			if err := pglock.LockTx(ctx, tx, pglock.Int64Key(int64(number))); err != nil {
				return nil, errors.Join(err, tx.Rollback(ctx))
			}
			return func() error { return tx.Commit(ctx) }, nil
		},
		close: closing(pool),
	}, nil
}

func openSession(ctx context.Context, l *lab) (*locker, error) { return l.onPool(ctx, pglock.New) }

func openRow(ctx context.Context, l *lab) (*locker, error) { return l.onPool(ctx, rowlock.New) }

// onPool opens a Locker, which has connections of its own.
func (l *lab) onPool(ctx context.Context, open func(*pgxpool.Pool, ...pglock.Option) (*pglock.Locker, error)) (*locker, error) {
	pool, err := l.pool(ctx)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	opened, err := open(pool)
	if err != nil {
		return nil, err
	}
	return named(redispeer.Of(opened)), nil
}

func openPlain(ctx context.Context, l *lab) (*locker, error) {
	pool, err := l.pool(ctx)
	if err != nil {
		return nil, err
	}
	return &locker{
		lock: func(ctx context.Context, number int) (func() error, error) {
			conn, err := pool.Acquire(ctx)
			if err != nil {
				return nil, err
			}
			if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", number); err != nil {
				conn.Release()
				return nil, err
			}
			return func() error {
				defer conn.Release()
				_, err := conn.Exec(ctx, "SELECT pg_advisory_unlock($1)", number)
				return err
			}, nil
		},
		close: closing(pool),
	}, nil
}

// byNumber keeps what a library needs for each lock, since it has one key each.
type byNumber[T any] struct {
	mu   sync.Mutex
	all  map[int]T
	make func(number int) (T, error)
}

func (b *byNumber[T]) get(number int) (T, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if v, ok := b.all[number]; ok {
		return v, nil
	}
	v, err := b.make(number)
	if err != nil {
		return v, err
	}
	if b.all == nil {
		b.all = map[int]T{}
	}
	b.all[number] = v
	return v, nil
}

func (l *lab) database(most int) (*sql.DB, error) {
	config, err := pgxpool.ParseConfig(l.dsn())
	if err != nil {
		return nil, err
	}
	db := stdlib.OpenDB(*config.ConnConfig)
	db.SetMaxOpenConns(most)
	db.SetMaxIdleConns(most)
	return db, nil
}

// gooseOffset keeps goose's locks apart from others of the same number.
const gooseOffset = 1 << 40

func openGoose(_ context.Context, l *lab) (*locker, error) {
	db, err := l.database(connections)
	if err != nil {
		return nil, err
	}
	lockers := byNumber[lock.SessionLocker]{make: func(number int) (lock.SessionLocker, error) {
		return lock.NewPostgresSessionLocker(lock.WithLockID(gooseOffset + int64(number)))
	}}
	return &locker{
		lock: func(ctx context.Context, number int) (func() error, error) {
			one, err := lockers.get(number)
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
			return func() error { return errors.Join(one.SessionUnlock(ctx, conn), conn.Close()) }, nil
		},
		close: db.Close,
	}, nil
}

func openGooseTable(_ context.Context, l *lab) (*locker, error) {
	db, err := l.database(connections)
	if err != nil {
		return nil, err
	}
	lockers := byNumber[lock.Locker]{make: func(number int) (lock.Locker, error) {
		return lock.NewPostgresTableLocker(lock.WithTableLockID(int64(number) + 1))
	}}
	return &locker{
		lock: func(ctx context.Context, number int) (func() error, error) {
			one, err := lockers.get(number)
			if err != nil {
				return nil, err
			}
			if err := one.Lock(ctx, db); err != nil {
				return nil, err
			}
			return func() error { return one.Unlock(ctx, db) }, nil
		},
		close: db.Close,
	}, nil
}

// openMigrate makes a driver for each lock: the key is made of the name of the table with the migrations.
func openMigrate(_ context.Context, l *lab) (*locker, error) {
	drivers := byNumber[database.Driver]{make: func(number int) (database.Driver, error) {
		db, err := l.database(1)
		if err != nil {
			return nil, err
		}
		d, err := migratepgx.WithInstance(db, &migratepgx.Config{MigrationsTable: fmt.Sprintf("migrations_%d", number)})
		if err != nil {
			return nil, errors.Join(err, db.Close())
		}
		return d, nil
	}}
	return &locker{
		lock: func(_ context.Context, number int) (func() error, error) {
			d, err := drivers.get(number)
			if err != nil {
				return nil, err
			}
			if err := d.Lock(); err != nil {
				return nil, err
			}
			return d.Unlock, nil
		},
		close: func() (err error) {
			for _, d := range drivers.all {
				err = errors.Join(err, d.Close())
			}
			return err
		},
	}, nil
}
