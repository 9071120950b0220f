package pglock

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/txlock"
	"github.com/pglock-toolkit/pglock/pglock/internal/txscript"
)

// isPlain reports whether the lock is of the kind that nearly all are: exclusive, in the bigint space. It has statements of
// its own, since the server parses and plans a statement each time.
func (c txConfig) isPlain(key Key) bool { return key.k.Space == driver.SpaceBigint && !c.shared }

// lockStatement returns the statement that takes one lock, and its arguments.
func (c txConfig) lockStatement(key Key, waits bool) (sql string, args []any) {
	args = []any{c.allowStandby, c.allowStale}
	switch {
	case !c.isPlain(key):
		return lockdb.LockAnyTx, append(args, waits, c.shared, int16(key.k.Space), key.k.Number)
	case waits:
		return lockdb.LockTx, append(args, key.k.Number)
	}
	return lockdb.TryLockTx, append(args, key.k.Number)
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

// oneRoundTrip is [txlock.OneRoundTrip], for scripts too.
type oneRoundTrip struct{ txlock.OneRoundTrip }

func inOneRoundTrip(tx pgx.Tx) oneRoundTrip { return oneRoundTrip{txlock.OneRoundTrip{Tx: tx}} }

// RunScript implements [txscript.Runner] for transactions that do.
func (t oneRoundTrip) RunScript(ctx context.Context, s *txscript.Script, args []any) (int64, error) {
	if t.Conn() != nil && !canBeBounded(t.Tx) {
		return s.RunEach(ctx, t, args...)
	}
	return s.Run(ctx, t.Tx, args...)
}
