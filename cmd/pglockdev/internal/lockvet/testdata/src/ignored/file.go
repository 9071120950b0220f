//pglock:allow all of this file

package ignored

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/pglock"
)

func allowed(ctx context.Context, tx pgx.Tx) { pglock.LockTx(ctx, tx, key) }
