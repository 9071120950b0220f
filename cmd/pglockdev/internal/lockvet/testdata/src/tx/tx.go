package tx

import (
	"context"
	"database/sql"

	"github.com/pglock-toolkit/pglock/pglock/adapter/sqltx"
)

func lock(ctx context.Context, db *sql.DB, conn *sql.Conn, tx *sql.Tx) {
	sqltx.LockTx(ctx, db, 1)   // want `LockTx on a sql.DB, which is no transaction`
	sqltx.LockTx(ctx, conn, 1) // want `LockTx on a sql.Conn`
	sqltx.LockTx(ctx, tx, 1)
}
