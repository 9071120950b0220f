package txguard

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/internal/lockkeys"
)

// SameServer reports whether tx is on the server and in the database of the session: whether the server is
// the same, and the session's identity is held there. tx can continue afterwards. For a transaction above READ COMMITTED the answer is always false.
func SameServer(ctx context.Context, tx pgx.Tx, s Session) (seen bool, err error) {
	object, err := s.Identity.of(ctx, s)
	if err != nil {
		return false, err
	}
	savepoint, err := tx.Begin(ctx)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, savepoint.Rollback(ctx)) }()
	err = savepoint.QueryRow(ctx, lockdb.SeesIdentity, pgx.QueryExecModeExec, s.Server, lockkeys.IdentityClass, object).Scan(&seen)
	return seen, err
}
