package pglock

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres"
	"github.com/pglock-toolkit/pglock/pglock/internal/txscript"
)

var boundedWait = txscript.New(lockdb.BeginBoundedWait, lockdb.BoundedWait, lockdb.EndBoundedWait)

// boundedLockTx waits for at most c.maxWait for all keys together, in one message. See queries/locks.sql for how the
// transaction survives.
func boundedLockTx(ctx context.Context, tx pgx.Tx, keys []Key, c txConfig) error {
	asked := newTxRequest(true, keys...)
	spaces, numbers := arrays(keys)
	rows, err := boundedWait.Run(ctx, tx,
		spaces, numbers, c.shared, milliseconds(c.maxWait), c.derived, c.allowStandby, c.allowStale)
	outcome := txUnknown
	if outcomes := [...]txOutcome{txUnknown, txGranted, txHeld, txRefusedStandby, txRefusedStale, txTimedOut}; rows < int64(len(outcomes)) {
		outcome = outcomes[rows]
	}
	err = asked.result(ctx, outcome, err)
	wait := (*WaitError)(nil)
	if !errors.As(err, &wait) || outcome != txHeld && outcome != txTimedOut {
		return err
	}
	var broken error
	wait.Holders, broken = holdersTx(ctx, tx, keys)
	switch {
	case broken != nil:
		wait.Err = errors.Join(wait.Err, broken)
	case outcome == txHeld && c.derived:
		wait.Err = errDeadlineNear
	}
	return err
}

// holdersTx asks for the holders of the keys. The query may fail (statement_timeout, a pg_stat_activity that not all
// roles may read), so it runs inside a savepoint, and if it fails there are no holders in the result. An error means
// that the transaction cannot continue.
func holdersTx(ctx context.Context, tx pgx.Tx, keys []Key) ([]Holder, error) {
	savepoint, err := tx.Begin(ctx)
	if err != nil {
		return nil, err
	}
	holders, err := postgres.Holders(ctx, inOneRoundTrip(savepoint), driverKeys(keys))
	if rollbackErr := savepoint.Rollback(ctx); rollbackErr != nil {
		return nil, errors.Join(err, rollbackErr)
	}
	return oncePerSession(holders), nil
}

// oncePerSession keeps one holder for each session, which may hold several of the keys.
func oncePerSession(holders []Holder) []Holder {
	seen := map[Holder]bool{}
	return slices.DeleteFunc(holders, func(h Holder) bool {
		session := Holder{PID: h.PID, Prepared: h.Prepared, Shared: h.Shared}
		again := seen[session]
		seen[session] = true
		return again
	})
}

// milliseconds rounds up, and stays within lock_timeout's range: a positive 32-bit integer.
func milliseconds(d time.Duration) int64 {
	ms := int64(d / time.Millisecond)
	if d%time.Millisecond > 0 {
		ms++
	}
	return min(max(ms, 1), math.MaxInt32)
}
