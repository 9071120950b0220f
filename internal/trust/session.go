package trust

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// SessionSettings keep the owner of the database from harming a session by settings of the database. A search_path could
// lead to objects of the owner. A transaction that is serializable, read-only and deferrable waits before its first
// statement for a safe snapshot (https://www.postgresql.org/docs/current/sql-set-transaction.html), however long that
// takes; with exit_on_error each error ends the session; and with jit_above_cost=0 each statement would be
// compiled.
var SessionSettings = []string{
	"search_path = pg_catalog, pg_temp", "default_transaction_deferrable = off", "exit_on_error = off", "jit = off",
}

// transactionSettings are for one transaction what [SessionSettings] are for a session. They come first in it.
const transactionSettings = lockdb.SetReadCommitted + ";" + lockdb.SetNotDeferrable + ";" + lockdb.SetSearchPath + ";" +
	lockdb.SetNoExitOnError + ";" + lockdb.SetNoJIT + ";"

// Set changes settings of a session that this client has to itself. If the server process is not the one that the
// connection was made to, there is a proxy in between, which may give the session to other clients: then Set changes
// nothing, and the error matches [driver.ErrPooler]. With anyProxy it does not look.
//
// Everything is one message, and so one transaction, on one server process even behind a proxy. The look comes first,
// so nothing has been changed when it fails.
func Set(ctx context.Context, conn *pgconn.PgConn, anyProxy bool, settings ...string) error {
	sql := transactionSettings
	if !anyProxy {
		sql += fmt.Sprintf("SELECT CASE WHEN pg_catalog.pg_backend_pid() OPERATOR(pg_catalog.<>) %d "+
			"THEN pg_catalog.concat('%s')::pg_catalog.int4 END; ", int32(conn.PID()), pooled)
	}
	err := conn.Exec(ctx, sql+"SET "+strings.Join(settings, "; SET ")).Close() // rows, however many, are not kept
	if strings.Contains(sqlstate.Refusal(err).Message, pooled) {
		return Pooled()
	}
	return err
}

// pooled is in the error of the look: it is not a number, and the error quotes it.
const pooled = "pglock_pooler"

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
		if err := conn.Exec(ctx, lockdb.BeginReadCommitted+";"+transactionSettings).Close(); err != nil {
			return err
		}
		refused := own(ctx, conn)
		if err := conn.Exec(ctx, lockdb.Commit).Close(); err != nil && refused == nil {
			return err
		}
		return refused
	}
}
