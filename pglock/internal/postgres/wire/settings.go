package wire

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/internal/trust"
	"github.com/pglock-toolkit/pglock/pglock/internal/refusal"
)

// settings are for the session what [trust.TransactionSettings] are for a transaction. The rest is for the statements that set
// it up, which must not be cut short.
var settings = "SET " + strings.Join([]string{
	"search_path = pg_catalog, pg_temp", "default_transaction_deferrable = off", "exit_on_error = off", "jit = off",
	"statement_timeout = 0", "default_transaction_isolation = 'read committed'", "default_transaction_read_only = off",
}, "; SET ")

// ApplySettings changes the settings of a new session. (Poolers would refuse them as startup parameters.) If the server
// process is not the one that the connection was made to, there is a proxy in between, which may give the session to other
// clients: then it changes nothing, and the error matches [driver.ErrPooler]. With AllowPooler it does not look.
//
// Everything is one message, and so one transaction, on one server process even behind a proxy. The look comes first,
// so nothing has been changed when it fails.
func (d *Dialer) ApplySettings(ctx context.Context, conn *pgx.Conn) error {
	if err := refusal.CheckServer(conn); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, d.Conn.ConnectTimeout)
	defer cancel()
	sql, pg := trust.TransactionSettings, conn.PgConn()
	if !d.AllowPooler {
		sql += fmt.Sprintf("SELECT CASE WHEN pg_catalog.pg_backend_pid() OPERATOR(pg_catalog.<>) %d "+
			"THEN pg_catalog.concat('%s')::pg_catalog.int4 END; ", int32(pg.PID()), pooled)
	}
	err := pg.Exec(ctx, sql+settings).Close() // rows, however many, are not kept
	if strings.Contains(sqlstate.Refusal(err).Message, pooled) {
		return trust.Pooled()
	}
	return NotOpened("set up the session", err)
}

// pooled is in the error of the look: it is not a number, and the error quotes it.
const pooled = "pglock_pooler"
