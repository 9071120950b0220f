package trust

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// SetSearchPath pins the search_path of a session, and three more settings with which the owner of the database could
// harm it. A transaction that is serializable, read-only and deferrable waits before its first statement until no other
// one is in its way (https://www.postgresql.org/docs/current/sql-set-transaction.html), however long that takes; and
// with exit_on_error each error ends the session. SET itself does not wait. With jit_above_cost=0 each statement would be
// compiled.
const SetSearchPath = "SET search_path = pg_catalog, pg_temp; SET default_transaction_deferrable = off; " +
	"SET exit_on_error = off; SET jit = off"

// NotDeferrable makes the transactions of a connection not deferrable if by default they are. Otherwise it changes
// nothing, since behind a pooler a setting may remain for other clients.
func NotDeferrable(ctx context.Context, conn *pgx.Conn) error {
	var deferrable string
	err := conn.QueryRow(ctx, "SHOW default_transaction_deferrable").Scan(&deferrable)
	if err == nil && deferrable == "on" {
		_, err = conn.Exec(ctx, "SET default_transaction_deferrable = off")
	}
	return err
}

// PinSearchPath makes a connection set its search_path before pgx asks what kind of server it leads to
// (target_session_attrs): pgx calls pg_is_in_recovery without a schema, and the owner of the database may have set a
// search_path that finds a function of its own.
func PinSearchPath(config *pgconn.Config) {
	own := config.ValidateConnect
	if own == nil {
		return
	}
	config.ValidateConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		if _, err := conn.Exec(ctx, SetSearchPath).ReadAll(); err != nil {
			return err
		}
		return own(ctx, conn)
	}
}
