package main

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/pglock"
)

// openPairs connects a worker in both ways.
func openPairs(ctx context.Context, connString string) (pairs map[string]pair, closePairs func() error, err error) {
	conn, err := pgx.Connect(ctx, connString)
	if err != nil {
		return nil, nil, err
	}
	locker, err := pglock.Open(ctx, connString)
	if err != nil {
		return nil, nil, errors.Join(err, conn.Close(ctx))
	}
	pairs = map[string]pair{ours: lockerPair(locker), plain: plainConnPair(conn)}
	return pairs, func() error { return errors.Join(closeLocker(locker), conn.Close(ctx)) }, nil
}

func lockerPair(locker *pglock.Locker) pair {
	var held *pglock.Lock
	return pair{
		lock: func(ctx context.Context) (err error) {
			held, err = locker.Lock(ctx, pglock.Int64Key(handoffKey))
			return err
		},
		unlock: func(ctx context.Context) error { return held.Unlock(ctx) },
	}
}

func plainConnPair(conn *pgx.Conn) pair {
	run := func(sql string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := conn.Exec(ctx, sql, handoffKey)
			return err
		}
	}
	return pair{lock: run(plainLock), unlock: run(plainUnlock)}
}
