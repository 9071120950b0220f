package pglock

import (
	"context"
	"errors"

	"github.com/pglock-toolkit/pglock/pglock/internal/txlock"
)

// lockOwn locks in a transaction that takes its locks itself.
func (c txConfig) lockOwn(ctx context.Context, tx txlock.Tx, keys []Key, wait bool) error {
	if wait {
		if err := txWaitsForItself(ctx, tx, keys, c.shared); err != nil {
			return err
		}
		c = c.below(ctx, tx)
	}
	asked, within := ask(wait, keys...), ctx
	if wait && c.bounded {
		var cancel context.CancelFunc
		within, cancel = context.WithTimeoutCause(ctx, c.maxWait, errMaxWait)
		defer cancel()
	}
	err := tx.LockTx(within, txlock.Request{Keys: plain(keys), Shared: c.shared, Wait: wait})
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrNotAcquired):
		return asked.result(ctx, held, nil)
	case !errors.Is(err, errMaxWait):
		tx.Abort(err)
		return asked.result(ctx, unknown, err)
	}
	waited := &WaitError{}
	for _, key := range keys {
		holders, err := tx.HoldersTx(ctx, key.k)
		if err == nil {
			waited.Holders = append(waited.Holders, holders...)
		}
	}
	if c.derived {
		waited.Err = errDeadlineNear
	}
	return asked.result(ctx, unknown, waited)
}
