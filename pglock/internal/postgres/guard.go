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
	return txguard.Guard(ctx, tx, c.Session().Guard(), txguard.Lock{Keys: c.Keys(), Shared: c.Shared(), First: first})
}

// GuardsInOrder implements [driver.TxGuard].
func (b *Backend) GuardsInOrder() bool { return true }
