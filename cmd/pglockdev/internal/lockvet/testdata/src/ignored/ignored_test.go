package ignored

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/pglock"
)

func helper(ctx context.Context, tx pgx.Tx, lock *pglock.Lock) {
	lock.Unlock(ctx)
	pglock.LockTx(ctx, tx, key) // want `the error of LockTx is ignored`
}
