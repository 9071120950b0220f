package loop

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/pglock"
)

func each(ctx context.Context, tx pgx.Tx, keys []pglock.Key, names []string) error {
	for _, key := range keys {
		if err := pglock.LockTx(ctx, tx, key); err != nil { // want `LockTx in a loop takes a round trip for each key`
			return err
		}
	}
	for i := 0; i < len(names); i++ {
		if err := pglock.LockTx(ctx, tx, pglock.NewKey(names[i])); err != nil { // want `LockTx in a loop`
			return err
		}
	}
	for len(names) > 0 {
		name := names[0]
		names = names[1:]
		if err := pglock.LockTx(ctx, tx, pglock.NewKey(name)); err != nil { // want `LockTx in a loop`
			return err
		}
	}
	return pglock.LockAllTx(ctx, tx, keys)
}

func oneEach(ctx context.Context, conn *pgx.Conn, keys []pglock.Key, one pglock.Key, begin func(func(pgx.Tx) error) error) error {
	var shared pgx.Tx
	for _, key := range keys {
		tx, err := conn.Begin(ctx)
		if err != nil {
			return err
		}
		if err := pglock.LockTx(ctx, tx, key); err != nil {
			return err
		}
		if shared, err = conn.Begin(ctx); err != nil {
			return err
		}
		if err := pglock.LockTx(ctx, shared, key); err != nil {
			return err
		}
		if err := begin(func(tx pgx.Tx) error { return pglock.LockTx(ctx, tx, key) }); err != nil {
			return err
		}
	}
	for range 3 {
		if pglock.LockTx(ctx, shared, one) == nil { // another attempt at one key
			break
		}
	}
	for _, key := range keys {
		if pglock.TryLockTx(ctx, shared, key) == nil { // the first that is free
			break
		}
	}
	return nil
}
