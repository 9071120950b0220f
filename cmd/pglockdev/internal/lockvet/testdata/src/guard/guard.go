package guard

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/pglock"
)

const update = "UPDATE invoices SET paid = true"

func late(ctx context.Context, tx pgx.Tx, lock *pglock.Lock) error {
	if err := tx.Exec(ctx, update); err != nil {
		return err
	}
	return lock.GuardTx(ctx, tx) // want `the transaction tx has written before this GuardTx`
}

func onOnePath(ctx context.Context, tx pgx.Tx, lock *pglock.Lock, early bool) error {
	if early {
		_ = tx.Exec(ctx, "with old as (delete from invoices returning id) select id from old")
	}
	return lock.GuardTx(ctx, tx) // want `the transaction tx has written before this GuardTx`
}

func inTime(ctx context.Context, tx pgx.Tx, first, second *pglock.Lock) error {
	_ = tx.Exec(ctx, "SET LOCAL statement_timeout = '1s'")
	_ = tx.Exec(ctx, "SELECT id FROM updates")
	_ = tx.Exec(ctx, "WITH due AS (SELECT id FROM invoices FOR NO KEY UPDATE) SELECT id FROM due")
	if err := first.GuardTx(ctx, tx); err != nil {
		return err
	}
	if err := tx.Exec(ctx, update); err != nil {
		return err
	}
	return second.GuardTx(ctx, tx)
}

func another(ctx context.Context, conn *pgx.Conn, other pgx.Tx, lock *pglock.Lock) error {
	for range 3 {
		tx, err := conn.Begin(ctx)
		if err != nil {
			return err
		}
		_ = other.Exec(ctx, update)
		if err := lock.GuardTx(ctx, tx); err != nil {
			return err
		}
		_ = tx.Exec(ctx, update)
	}
	tx, _ := conn.Begin(ctx)
	_ = tx.Exec(ctx, update)
	tx, _ = conn.Begin(ctx)
	return lock.GuardTx(ctx, tx)
}
