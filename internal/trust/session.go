package trust

import (
	"context"

	"github.com/jackc/pgx/v5/pgconn"
)

// SetSearchPath pins the search_path of a session.
const SetSearchPath = "SET search_path = pg_catalog, pg_temp"

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
