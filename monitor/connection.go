package monitor

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/monitordb"
)

// inTransaction reports whether db is in a transaction block, even a failed one.
func inTransaction(ctx context.Context, db DBTX) (bool, error) {
	if _, ok := db.(*pgxpool.Pool); ok {
		return false, nil
	}
	if conn := connection(db); conn != nil {
		return transactionOpen(conn), nil
	}
	rows, err := db.Query(ctx, monitordb.Probe)
	if err != nil {
		return false, err
	}
	conn := rows.Conn() // may be used by others once rows are closed
	inside := conn != nil && transactionOpen(conn)
	rows.Close()
	return inside, rows.Err()
}

// transactionOpen reports what the server said after the connection's last statement.
func transactionOpen(conn *pgx.Conn) bool {
	return conn.PgConn().TxStatus() != 'I'
}

// connection returns the connection that db uses, or nil if it is unknown.
func connection(db DBTX) *pgx.Conn {
	switch db := db.(type) {
	case *pgx.Conn:
		return db
	case interface{ Conn() *pgx.Conn }:
		return db.Conn()
	}
	return nil
}

// serverText names the server for an error, or returns "" if db does not know it.
func serverText(db DBTX) string {
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
