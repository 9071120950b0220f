package semaphore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/shorttext"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/bridge"
)

const (
	minTxPause = 5 * time.Millisecond
	maxTxPause = 40 * time.Millisecond
)

// AcquireTx takes one of n permits of the semaphore named by key for the rest of the transaction tx; commit and
// rollback free it. The permits are those of [Semaphore]: holders of both kinds count together. It needs no Locker and
// works through transaction poolers. PostgreSQL only.
//
// It has no place in the line: it gets a permit only if one is free and no call of [Semaphore.Acquire] waits. Otherwise
// it asks again, after pauses of 5 to 40 ms, until ctx ends or [pglock.MaxWait] has passed; then the error matches
// [pglock.ErrNotAcquired]. After MaxWait the transaction can continue; if ctx ends during a statement, pgx closes the
// connection. MaxWait(0) asks once. Between attempts it holds nothing, not even a snapshot (in READ COMMITTED), but the
// transaction keeps its connection: bound the wait, and if waits are long prefer a permit of a Semaphore, taken before
// the transaction begins.
//
// Each attempt is one statement in one round trip. Like [pglock.LockTx] it is refused on a hot standby and above
// READ COMMITTED unless an option allows it. [pglock.Shared] is an error. A second AcquireTx of the same semaphore
// in a transaction takes no second permit, since PostgreSQL's locks are reentrant within a session.
func AcquireTx(ctx context.Context, tx pgx.Tx, key pglock.Key, n int, opts ...pglock.TxOption) error {
	err := check(key, n)
	if err != nil {
		return err
	}
	maxWait, bounded, err := bridge.ReadMaxWait(opts)
	if err != nil {
		return failedTx(key, err)
	}
	gate := keys(key, 0)[0]
	start := driver.Now()
	for {
		outcome, err := bridge.TrySlotTx(ctx, tx, key, gate, n, opts)
		if err != nil {
			return failedTx(key, err)
		}
		if outcome == bridge.SlotGranted {
			return nil
		}
		waited := driver.Now().Sub(start)
		pause := minTxPause + rand.N(maxTxPause-minTxPause)
		if bounded {
			pause = min(pause, maxWait-waited)
		}
		if pause <= 0 {
			return failedTx(key, refusedTx(ctx, tx, key, gate, n, outcome, waited))
		}
		if err := sleep(ctx, pause); err != nil {
			return failedTx(key, &pglock.WaitError{Key: key, Waited: driver.Now().Sub(start), Err: err})
		}
	}
}

// errQueued is why a call is refused although slots may be free.
var errQueued = errors.New("other calls are waiting in line")

// refusedTx returns the error of a wait that was ended by MaxWait.
func refusedTx(
	ctx context.Context, tx pgx.Tx, key, gate pglock.Key, n int, outcome bridge.SlotTx, waited time.Duration,
) error {
	wait := &pglock.WaitError{Key: key, Waited: waited}
	if outcome == bridge.SlotQueued {
		wait.Err = errQueued
		return wait
	}
	holders, err := bridge.SlotHoldersTx(ctx, tx, gate, n)
	if err != nil {
		wait.Err = err
		return wait
	}
	wait.Holders = holders.([]pglock.Holder)
	return wait
}

// sleep waits for d or the end of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		if cause := context.Cause(ctx); !errors.Is(cause, ctx.Err()) {
			return fmt.Errorf("%w: %w", ctx.Err(), cause)
		}
		return ctx.Err()
	}
}

func failedTx(key pglock.Key, err error) error {
	return fmt.Errorf("pglock/semaphore: acquire a permit of %s in a transaction: %w", shorttext.Quote(key.String()), shorttext.Error(err))
}
