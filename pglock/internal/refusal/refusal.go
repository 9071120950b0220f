// Package refusal has the errors of servers and transactions that must not lock.
package refusal

import (
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// CheckServer refuses servers that accept advisory locks and do nothing: CockroachDB reports itself in a parameter
// status. (A standby does too, in_hot_standby, but a pooler may hand out an old value; the statement itself asks.) An
// unknown connection, nil, is not refused.
func CheckServer(conn *pgx.Conn) error {
	if conn == nil {
		return nil
	}
	if version := conn.PgConn().ParameterStatus("crdb_version"); version != "" {
		return fmt.Errorf("%w: the server is CockroachDB (%s), whose advisory locks do nothing", driver.ErrUnsupported, version)
	}
	return nil
}

// Outcomes of the statements of queries/locks.sql and queries/sessions.sql by which the server refuses a lock.
const (
	Standby = "pglock_standby"
	Stale   = "pglock_stale_snapshot"
)

// Of returns the error for such an outcome, and nil for any other.
func Of(outcome string) error {
	switch outcome {
	case Standby:
		return fmt.Errorf("%w: its advisory locks exclude only sessions of that server "+
			"(connect to the primary, or use AllowStandby)", driver.ErrStandby)
	case Stale:
		return fmt.Errorf("%w: the transaction is REPEATABLE READ or SERIALIZABLE "+
			"(use READ COMMITTED, or AllowStaleSnapshot)", driver.ErrStaleSnapshot)
	}
	return nil
}
