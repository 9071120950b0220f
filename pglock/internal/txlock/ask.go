package txlock

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// CheckServer refuses servers that accept advisory locks and do nothing: CockroachDB reports itself in a parameter
// status. (A standby does too, in_hot_standby, but a pooler may hand out an old value; the statement itself asks.)
func CheckServer(conn *pgx.Conn) error {
	if conn == nil {
		return nil
	}
	if version := conn.PgConn().ParameterStatus("crdb_version"); version != "" {
		return fmt.Errorf("%w: the server is CockroachDB (%s), whose advisory locks do nothing", driver.ErrUnsupported, version)
	}
	return nil
}

// Outcomes of the statements of queries/locks.sql by which the server refuses a lock.
const (
	Standby = "pglock_standby"
	Stale   = "pglock_stale_snapshot"
)

// Refusal returns the error for such an outcome, and nil for any other.
func Refusal(outcome string) error {
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

// OneRoundTrip runs statements in an execution mode that needs no preparation. The modes that prepare or describe a
// statement spend a round trip on it when a connection sees it first, and named prepared statements fail behind
// transaction poolers that do not track them.
type OneRoundTrip struct{ pgx.Tx }

// Exec is [pgx.Tx.Exec].
func (t OneRoundTrip) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return t.Tx.Exec(ctx, sql, t.with(args)...)
}

// Query is [pgx.Tx.Query].
func (t OneRoundTrip) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return t.Tx.Query(ctx, sql, t.with(args)...)
}

// QueryRow is [pgx.Tx.QueryRow].
func (t OneRoundTrip) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return t.Tx.QueryRow(ctx, sql, t.with(args)...)
}

func (t OneRoundTrip) with(args []any) []any {
	mode := pgx.QueryExecModeExec
	if conn := t.Conn(); conn != nil && conn.Config().DefaultQueryExecMode == pgx.QueryExecModeSimpleProtocol {
		mode = pgx.QueryExecModeSimpleProtocol // the caller's proxy may know no other protocol
	}
	return append([]any{mode}, args...)
}
