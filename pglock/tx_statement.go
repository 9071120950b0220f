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

// lockForm is one of the kinds of lock for which PostgreSQL has separate functions.
type lockForm struct {
	space        driver.Space
	shared, wait bool
}

// lockStatements and queueStatements all have the arguments that statementArgs makes.
var (
	lockStatements = map[lockForm]string{
		{driver.SpaceBigint, false, true}:  lockdb.LockTx,
		{driver.SpaceBigint, true, true}:   lockdb.LockTxShared,
		{driver.SpacePair, false, true}:    lockdb.LockPairTx,
		{driver.SpacePair, true, true}:     lockdb.LockPairTxShared,
		{driver.SpaceBigint, false, false}: lockdb.TryLockTx,
		{driver.SpaceBigint, true, false}:  lockdb.TryLockTxShared,
		{driver.SpacePair, false, false}:   lockdb.TryLockPairTx,
		{driver.SpacePair, true, false}:    lockdb.TryLockPairTxShared,
	}
	queueStatements = map[lockForm]string{
		{driver.SpaceBigint, false, true}: lockdb.QueueLockTx,
		{driver.SpaceBigint, true, true}:  lockdb.QueueLockTxShared,
		{driver.SpacePair, false, true}:   lockdb.QueueLockPairTx,
		{driver.SpacePair, true, true}:    lockdb.QueueLockPairTxShared,
	}
)

func statementArgs(key Key, c txConfig) []any {
	if class, object, ok := key.Pair(); ok {
		return []any{c.allowStandby, c.allowStale, class, object}
	}
	return []any{c.allowStandby, c.allowStale, key.Int64()}
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
