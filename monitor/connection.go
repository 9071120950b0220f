package monitor

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/pglock"
)

// errInTransaction refuses a connection whose transaction would keep the settings of a batch.
var errInTransaction = errors.New("the connection is in a transaction (use another one, or a pool)")

// inTransaction reports whether db is known to be in a transaction block, even a failed one.
func inTransaction(db pglock.DB) bool {
	conn := connection(db)
	return conn != nil && conn.PgConn().TxStatus() != 'I'
}

// connection returns the connection that db uses, or nil if it is unknown.
func connection(db pglock.DB) *pgx.Conn {
	switch db := db.(type) {
	case *pgx.Conn:
		return db
	case interface{ Conn() *pgx.Conn }:
		return db.Conn()
	}
	return nil
}

// serverText names the server for an error, or returns "" if db does not know it.
func serverText(db pglock.DB) string {
	var config *pgx.ConnConfig
	if pool, ok := db.(*pgxpool.Pool); ok {
		config = pool.Config().ConnConfig
	} else if conn := connection(db); conn != nil {
		config = conn.Config()
	} else {
		return ""
	}
	return fmt.Sprintf(" of %s, port %d, database %q", config.Host, config.Port, config.Database)
}
