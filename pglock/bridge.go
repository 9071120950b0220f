package pglock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/shorttext"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/bridge"
)

// This file implements what package bridge offers to the primitives of this module.

func init() {
	bridge.ReadLockOptions = func(opts any) (bridge.LockOptions, error) { return readLockOptions(opts.([]LockOption)) }
	bridge.ReadMaxWait = func(opts any) (time.Duration, bool, error) { return readMaxWait(opts.([]TxOption)) }
	bridge.WithUse = func(kind string, key any) any { return withUse(Use{UseKind(kind), key.(Key)}) }
	bridge.PassOn = func(from, to context.Context, lock any, opts any) (any, func(), bool) {
		next, report := lock.(*Lock).passOn(from, to, opts.([]LockOption))
		return next, report, next != nil
	}
	bridge.HandoffLimit = func(locker any) (int, time.Duration) {
		c := locker.(*Locker).config
		return c.handoffs, c.handoffFor
	}
	bridge.Logger = func(locker any) *slog.Logger { return locker.(*Locker).warnings() }
	bridge.RecordName = func(locker any, name string) { locker.(*Locker).recordName(name) }
	bridge.TrySlotTx = func(ctx context.Context, tx pgx.Tx, key, gate any, slots int, opts any) (bridge.SlotTx, error) {
		return trySlotTx(ctx, tx, key.(Key), gate.(Key), slots, opts.([]TxOption))
	}
	bridge.SlotHoldersTx = func(ctx context.Context, tx pgx.Tx, gate any, slots int) (any, error) {
		return slotHoldersTx(ctx, tx, gate.(Key), slots)
	}
	bridge.PermitsAwaited = func(ctx context.Context, locker, key any) context.Context {
		return locker.(*Locker).permitsAwaited(ctx, key.(Key))
	}
	bridge.PermitsAsked = func(ctx context.Context, locker, key any, try, awaited bool, waited time.Duration, err error) {
		locker.(*Locker).permitsAsked(ctx, key.(Key), try, awaited, waited, err)
	}
	bridge.Monitored = func(locker any) bool {
		_, is := locker.(*Locker).backend.(driver.Recorder)
		return is
	}
}

func readLockOptions(opts []LockOption) (bridge.LockOptions, error) {
	var c lockConfig
	for _, opt := range opts {
		if opt == nil {
			return bridge.LockOptions{}, errors.New("pglock: a LockOption is nil")
		}
		if err := opt.applyLock(&c); err != nil {
			return bridge.LockOptions{}, err
		}
	}
	return bridge.LockOptions{
		Shared: c.shared, Bounded: c.bounded, MaxWait: c.maxWait, MaxHold: c.maxHold, Token: c.token,
		Outage: c.outage,
	}, nil
}

func readMaxWait(opts []TxOption) (time.Duration, bool, error) {
	c, err := newTxConfig(opts)
	if err == nil && c.shared {
		err = errors.New("pglock: Shared does not apply to a semaphore: its slots are held exclusively")
	}
	return c.maxWait, c.bounded, err
}

// recordName records a name for the monitor.
func (l *Locker) recordName(name string) {
	if recorder, ok := l.backend.(driver.Recorder); ok && l.config.env.RecordNames {
		recorder.Record([]driver.Key{NewKey(name).k})
	}
}

// UseKind is a kind of [Use].
type UseKind string

// The kinds of uses.
const (
	UseLock          UseKind = ""                 // a lock that was asked for directly
	UseLeader        UseKind = "leader"           // the lock of a leader, see package leader
	UseLeaderMark    UseKind = "leader mark"      // a lock by which the monitor recognises a leader
	UsePermit        UseKind = "semaphore permit" // a slot of a semaphore, see package semaphore
	UseSemaphoreGate UseKind = "semaphore gate"   // the place at the head of a semaphore's line
	UseTick          UseKind = "tick"             // the lock of a job that runs once for each due time, see package schedule
	UseTickMark      UseKind = "tick mark"        // a lock by which the monitor recognises a tick
)

// Use says what a lock is for, in reports to an [Observer]. The zero Use is a lock that was asked for directly.
type Use struct {
	Kind UseKind
	Key  Key // of the primitive; the lock's own key may be derived from it
}

// String returns the kind and the key.
func (u Use) String() string {
	if u.Kind == UseLock {
		return "lock"
	}
	return fmt.Sprintf("%s of %s", u.Kind, shorttext.Quote(u.Key.String()))
}

func withUse(use Use) LockOption {
	return lockOption(func(c *lockConfig) error {
		c.use = &use
		return nil
	})
}

// used returns what the lock is for.
func (l *Lock) used() Use {
	l.mu.Lock()
	defer l.mu.Unlock()
	if x := l.lazy; x != nil && x.use != nil {
		return *x.use
	}
	return Use{}
}

// used returns what the lock that r asks for is for.
func (r *request) used() Use {
	if r.config.use == nil {
		return Use{}
	}
	return *r.config.use
}
