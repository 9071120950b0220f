package semaphore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/hooks"
	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/internal/shorttext"
	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/txlock"
)

const (
	minTxPause = 5 * time.Millisecond
	maxTxPause = 40 * time.Millisecond
)

// AcquireTx takes one of n permits of the semaphore named by key for the rest of the transaction tx; commit and
// rollback free it. The permits are those of a [Semaphore] on a Locker of [pglock.New]: holders of both kinds count
// together. Permits in rows (package rowlock) do not count. It needs no Locker and works through transaction poolers.
// PostgreSQL only.
//
// It has no place in the line: it gets a permit only if one is free and no call of [Semaphore.Acquire] waits. Otherwise
// it asks again, after pauses of 5 to 40 ms, until ctx ends or [pglock.MaxWait] has passed; then the error matches
// [pglock.ErrNotAcquired]. After MaxWait the transaction can continue; if ctx ends during a statement, pgx closes the
// connection. MaxWait(0) asks once. Between attempts it holds nothing, not even a snapshot (in READ COMMITTED), but the
// transaction keeps its connection: bound the wait, and if waits are long prefer a permit of a Semaphore, taken before
// the transaction begins.
//
// Each attempt is one statement in one round trip. Like [pglock.LockTx] it is refused on a hot standby and above
// READ COMMITTED unless an option allows it, and [pglock.WithObserver] reports it. [pglock.Shared] is an error. A second AcquireTx of the same semaphore
// in a transaction takes no second permit, since PostgreSQL's locks are reentrant within a session.
func AcquireTx(ctx context.Context, tx pgx.Tx, key pglock.Key, n int, opts ...pglock.TxOption) error {
	if err := check(key, n); err != nil {
		return err
	}
	c, err := hooks.ReadTxOptions(opts)
	switch {
	case err != nil:
		return failedTx(key, err)
	case c.Shared:
		return failedTx(key, errors.New("a semaphore takes no Shared: its slots are held exclusively"))
	case tx == nil:
		return failedTx(key, errors.New("the transaction is nil"))
	}
	if err := txlock.CheckServer(tx.Conn()); err != nil {
		return failedTx(key, err)
	}
	start := driver.Now()
	err = acquireTx(ctx, tx, key, n, c, start)
	if o := c.Observer.(*pglock.Observer); o.TxLocked != nil {
		o.TxLocked(ctx, pglock.TxLockedInfo{
			LockInfo: pglock.LockInfo{Keys: []pglock.Key{key}, Use: pglock.Use{Kind: pglock.UsePermit, Key: key}},
			Try:      c.Bounded && c.MaxWait == 0, Took: driver.Now().Sub(start), Err: err,
		})
	}
	return err
}

func acquireTx(ctx context.Context, tx pgx.Tx, key pglock.Key, n int, c hooks.TxSettings, start driver.Instant) error {
	for {
		outcome, err := tryTx(ctx, tx, key, n, c)
		if err != nil {
			return failedTx(key, err)
		}
		if outcome == granted {
			return nil
		}
		waited := driver.Now().Sub(start)
		pause := minTxPause + rand.N(maxTxPause-minTxPause)
		if c.Bounded {
			pause = min(pause, c.MaxWait-waited)
		}
		if pause <= 0 {
			return failedTx(key, refusedTx(ctx, tx, key, n, outcome, waited))
		}
		if err := sleep(ctx, pause); err != nil {
			return failedTx(key, &pglock.WaitError{Keys: []pglock.Key{key}, Waited: driver.Now().Sub(start), Err: err})
		}
	}
}

// The outcomes of the statement TrySlotTx that are not refusals.
const (
	granted = "granted"
	allHeld = "held"
	queued  = "queued" // others wait for a slot
)

// tryTx takes one of the slots if one is free and no others wait. The keys of the slots follow that of the gate.
func tryTx(ctx context.Context, tx pgx.Tx, key pglock.Key, n int, c hooks.TxSettings) (outcome string, err error) {
	class, gate, _ := keys(key, 0)[0].Pair()
	outcome, err = lockdb.New(txlock.OneRoundTrip{Tx: tx}).TrySlotTx(ctx, lockdb.TrySlotTxParams{
		AllowStandby: c.AllowStandby, AllowStale: c.AllowStale,
		Class: class, Gate: gate, First: gate + 1, Last: gate + int32(n),
	})
	switch {
	case err == nil && (outcome == granted || outcome == allHeld || outcome == queued):
		return outcome, nil
	case err == nil:
		return outcome, cmp.Or(txlock.Refusal(outcome), fmt.Errorf("unexpected answer %s from the server", shorttext.Quote(outcome)))
	}
	err = pglock.TxError(sqlstate.EndedBy(ctx, err))
	if wait, ok := errors.AsType[*pglock.WaitError](err); ok {
		wait.Keys = []pglock.Key{key}
	}
	return outcome, err
}

// errQueued is why a call is refused although slots may be free.
var errQueued = errors.New("other calls are waiting in line")

// refusedTx returns the error of a wait that was ended by MaxWait.
func refusedTx(ctx context.Context, tx pgx.Tx, key pglock.Key, n int, outcome string, waited time.Duration) error {
	wait := &pglock.WaitError{Keys: []pglock.Key{key}, Waited: waited}
	if outcome == queued {
		wait.Err = errQueued
		return wait
	}
	var slots []driver.KeyID
	for _, slot := range keys(key, n)[1:] {
		slots = append(slots, slot.ID())
	}
	wait.Holders, wait.Err = hooks.HoldersTx(ctx, tx, slots...)
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
