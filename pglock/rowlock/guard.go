package rowlock

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/internal/lockkeys"
	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/records"
)

// GuardTx implements [driver.TxGuard]. The transaction locks the rows of the lock until it ends. Other holders pass over
// locked rows, so transactions of earlier holders have ended when a lock is granted, and first does not matter.
func (b *backend) GuardTx(ctx context.Context, tx pgx.Tx, grants []driver.Grant, _ bool) error {
	for _, held := range grants {
		g, err := ours(held)
		if err == nil {
			err = b.guardBy(ctx, tx, g)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// guardBy ensures that tx cannot commit if g was lost. Others see the companion of its key, and so that tx is guarded.
func (b *backend) guardBy(ctx context.Context, tx pgx.Tx, g *grant) error {
	g.guarded.Store(true)
	guarded := records.Guarded{DB: tx, Owners: b.config.TrustedOwners}
	outcome, err := guarded.Queries().GuardByLeases(ctx, lockdb.GuardByLeasesParams{
		Holder: g.holder.id, Shared: g.shared, Space: int16(g.key.Space), Number: g.key.Number,
		Generation: g.generation, Companion: lockkeys.Companion(published(g.key), g.shared),
	})
	switch err = sqlstate.ExplainSchema(sqlstate.EndedBy(ctx, err)); {
	case isLost(err):
		return b.heldElsewhere(ctx, g, driver.ErrOtherServer)
	case errors.Is(err, driver.ErrSchemaMissing): // the lock's own database has it, unless it was removed meanwhile
		return b.heldElsewhere(ctx, g, fmt.Errorf("%w: its database has no schema pglock", driver.ErrOtherServer))
	case err != nil:
		return err
	case outcome == "read only":
		return fmt.Errorf("%w: a read-only transaction cannot lock the row that guards it", driver.ErrUnsupported)
	case outcome == "stale":
		return b.heldElsewhere(ctx, g, fmt.Errorf("%w (begin it after the lock was granted)", driver.ErrStaleSnapshot))
	}
	return nil
}

// GuardsInOrder implements [driver.TxGuard]. Guarded transactions share the row of a generation, whichever Lock has it.
func (b *backend) GuardsInOrder() bool { return false }

// heldElsewhere returns why if the lock is held, although the transaction has not found it.
func (b *backend) heldElsewhere(ctx context.Context, g *grant, why error) error {
	if err := b.Check(ctx, g); err != nil {
		return err
	}
	return why
}

// isLost reports whether the guard has found that the lock is not held.
func isLost(err error) bool {
	server := sqlstate.Refusal(err)
	return server.Code == notInPrerequisiteState && strings.Contains(server.Message, "pglock_lost")
}

const notInPrerequisiteState = "55000"
