package postgres

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/mux"
	"github.com/pglock-toolkit/pglock/pglock/internal/txguard"
)

// GuardTx implements [driver.TxGuard]. Keys on one session are guarded together.
func (b *Backend) GuardTx(ctx context.Context, tx pgx.Tx, grants []driver.Grant, first bool) error {
	var sessions []*mux.Session
	var locks []txguard.Lock
	for _, held := range grants {
		c, err := ours(held)
		if err != nil {
			return err
		}
		i := slices.Index(sessions, c.Session())
		if i < 0 {
			i = len(sessions)
			sessions, locks = append(sessions, c.Session()), append(locks, txguard.Lock{Shared: c.Shared(), First: first})
		}
		locks[i].Keys = append(locks[i].Keys, c.Key())
	}
	for i, s := range sessions {
		if err := txguard.Guard(ctx, tx, s.Guard(), locks[i]); err != nil {
			return err
		}
	}
	return nil
}

// GuardsInOrder implements [driver.TxGuard].
func (b *Backend) GuardsInOrder() bool { return true }
