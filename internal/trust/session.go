package trust

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// TransactionSettings keep the owner of the database from harming a transaction by settings of the database. They come first
// in it. A search_path could lead to objects of the owner. A transaction that is serializable, read-only and deferrable waits
// before its first statement for a safe snapshot (https://www.postgresql.org/docs/current/sql-set-transaction.html), however
// long that takes; with exit_on_error each error ends the session; and with jit_above_cost=0 each statement would be compiled.
const TransactionSettings = lockdb.SetReadCommitted + ";" + lockdb.SetNotDeferrable + ";" + lockdb.SetSearchPath + ";" +
	lockdb.SetNoExitOnError + ";" + lockdb.SetNoJIT + ";"

// Pooled returns the error for a session that a proxy may give to other clients.
func Pooled() error {
	return fmt.Errorf("%w: the server process is not the one that the connection was made to "+
		"(connect directly, see NewWithConfig; keep the locks in rows, see package rowlock; or, if the proxy keeps one server "+
		"session for each client, use AllowPooler)", driver.ErrPooler)
}

// PinSearchPath makes a connection pin its search_path while pgx asks what kind of server it leads to
// (target_session_attrs): pgx calls pg_is_in_recovery without a schema, and the owner of the database may have set a
// search_path that finds a function of its own. Behind a proxy other clients may use the session later, so only a
// transaction has that search_path. It ends in any case, since pgx may use a server that is merely not preferred.
func PinSearchPath(config *pgconn.Config) {
	own := config.ValidateConnect
	if own == nil {
		return
	}
	config.ValidateConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		if err := conn.Exec(ctx, lockdb.BeginReadCommitted+";"+TransactionSettings).Close(); err != nil {
			return err
		}
		refused := own(ctx, conn)
		if err := conn.Exec(ctx, lockdb.Commit).Close(); err != nil && refused == nil {
			return err
		}
		return refused
	}
}
