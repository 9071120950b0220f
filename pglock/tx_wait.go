package pglock

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres"
)

// boundedLockTx waits for at most c.maxWait for all keys together, in a savepoint: the transaction survives the end of
// the wait, a refusal, and a deadlock that pglock resolves. It does not survive other errors.
func boundedLockTx(ctx context.Context, tx pgx.Tx, keys []Key, c txConfig) error {
	asked := newTxRequest(!c.never(), keys...)
	savepoint, err := tx.Begin(ctx)
	if err != nil {
		return asked.result(ctx, txGranted, err)
	}
	statement, args := c.queuedStatement(keys)
	var code string
	err = waitTx(ctx, tx, keys, c.shared, func(ctx context.Context) error {
		err := inOneRoundTrip(savepoint).QueryRow(ctx, statement, args...).Scan(new(any))
		code = sqlstate.Refusal(err).Code
		return asked.result(ctx, txGranted, err)
	})
	if err == nil {
		return asked.result(ctx, txGranted, savepoint.Commit(ctx))
	}
	if !errors.Is(err, ErrDeadlock) && code != sqlstate.LockNotAvailable && code != sqlstate.UndefinedObject {
		return err
	}
	if broken := savepoint.Rollback(ctx); broken != nil {
		return errors.Join(err, broken)
	}
	wait, ok := errors.AsType[*WaitError](err)
	if !ok || c.never() {
		return err
	}
	switch {
	case !c.derived:
		wait.Err = nil
	case wait.Waited < c.maxWait:
		wait.Err = errOwnTimeout
	default:
		wait.Err = errDeadlineNear
	}
	var broken error
	if wait.Holders, broken = holdersTx(ctx, tx, keys); broken != nil {
		wait.Err = errors.Join(wait.Err, broken)
	}
	return wait
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
