package txguard

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/internal/lockkeys"
)

// SameServer reports whether tx, which can continue afterwards, is on the server and in the database of the session: the
// session's identity is held there. It is false for a transaction above READ COMMITTED, which it does not check.
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
	err = savepoint.QueryRow(ctx, lockdb.SeesIdentity, pgx.QueryExecModeExec, lockkeys.IdentityClass, object).Scan(&seen)
	return seen, err
}
