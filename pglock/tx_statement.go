package pglock

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// isPlain reports whether it is what nearly all calls ask for: one exclusive lock in the bigint space. That has statements
// of its own, since the server parses and plans a statement each time.
func (c txConfig) isPlain(keys []Key) bool {
	return len(keys) == 1 && keys[0].k.Space == driver.SpaceBigint && !c.shared
}

// lockStatement returns the statement that takes locks, and its arguments. Several locks are always waited for.
func (c txConfig) lockStatement(keys []Key, waits bool) (sql string, args []any) {
	if c.isPlain(keys) {
		return lockdb.LockTx, []any{c.allowStandby, c.allowStale, waits, keys[0].k.Number}
	}
	spaces, numbers := arrays(keys)
	return lockdb.LocksTx, []any{waits, c.shared, numbers, spaces, c.allowStandby, c.allowStale}
}

// queuedStatement is lockStatement for a batch.
func (c txConfig) queuedStatement(keys []Key) (sql string, args []any) {
	args = []any{c.allowStandby, c.allowStale}
	if c.isPlain(keys) && !c.bounded {
		return lockdb.QueueLockTx, append(args, keys[0].k.Number)
	}
	most := int64(0)
	if c.bounded && !c.never() {
		most = milliseconds(c.maxWait)
	}
	spaces, numbers := arrays(keys)
	return lockdb.QueueLocksTx, append(append([]any{most, c.derived}, args...), !c.never(), c.shared, numbers, spaces)
}

// arrays returns the keys as the statements for several keys take them.
func arrays(keys []Key) (spaces []int16, numbers []int64) {
	spaces, numbers = make([]int16, len(keys)), make([]int64, len(keys))
	for i, key := range keys {
		spaces[i], numbers[i] = int16(key.k.Space), key.k.Number
	}
	return spaces, numbers
}

// inOrder sorts keys into the one order in which all calls take them, and drops duplicates.
func inOrder(keys []Key) []Key {
	keys = slices.Clone(keys)
	slices.SortStableFunc(keys, func(a, b Key) int { return a.ID().Compare(b.ID()) })
	return slices.CompactFunc(keys, Key.Equal)
}

// oneRoundTrip runs statements in an execution mode that needs no preparation. The modes that prepare or describe a
// statement spend a round trip on it when a connection sees it first, and named prepared statements fail behind
// transaction poolers that do not track them.
type oneRoundTrip struct{ pgx.Tx }

func inOneRoundTrip(tx pgx.Tx) oneRoundTrip { return oneRoundTrip{tx} }

func (t oneRoundTrip) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return t.Tx.Exec(ctx, sql, t.withMode(args)...)
}

func (t oneRoundTrip) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return t.Tx.Query(ctx, sql, t.withMode(args)...)
}

func (t oneRoundTrip) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return t.Tx.QueryRow(ctx, sql, t.withMode(args)...)
}

func (t oneRoundTrip) withMode(args []any) []any {
	mode := pgx.QueryExecModeExec
	if conn := t.Conn(); conn != nil && conn.Config().DefaultQueryExecMode == pgx.QueryExecModeSimpleProtocol {
		mode = pgx.QueryExecModeSimpleProtocol // the caller's proxy may know no other protocol
	}
	return append([]any{mode}, args...)
}
