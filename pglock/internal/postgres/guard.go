package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/txguard"
)

// GuardTx implements [driver.TxGuard].
func (b *Backend) GuardTx(ctx context.Context, tx pgx.Tx, held driver.Grant, first bool) error {
	c, err := ours(held)
	if err != nil {
		return err
	}
	for _, s := range c.Sessions() { // one, unless several keys are shared
		if err := txguard.Guard(ctx, tx, s.Guard(), txguard.Lock{Keys: c.Keys(), Shared: c.Shared(), First: first}); err != nil {
			return err
		}
		first = false
	}
	return nil
}

// SameServer implements [driver.TxChecker].
func (b *Backend) SameServer(ctx context.Context, tx pgx.Tx, held driver.Grant) (bool, error) {
	c, err := ours(held)
	if err != nil {
		return false, err
	}
	return txguard.SameServer(ctx, tx, c.Sessions()[0].Guard())
}
