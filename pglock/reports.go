package pglock

import (
	"context"
	"errors"
	"time"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// This file calls the Observer.

// reportWait reports, once, that r cannot have its lock at once.
func (r *request) reportWait(l *Locker) {
	if r.waited {
		return
	}
	r.waited = true
	o := l.config.observer
	if o == nil || o.WaitStarted == nil {
		return
	}
	ctx := o.WaitStarted(r.caller, WaitStartedInfo{
		Keys: publicKeys(r.keys), Shared: r.config.shared, Use: r.used(), Token: r.token.String(), locker: l,
	})
	if ctx != nil {
		r.caller = ctx
	}
}

// reportEnd reports the end of an acquiring call.
func (r *request) reportEnd(o *Observer, lock *Lock, waited time.Duration, err error) {
	if o == nil {
		return
	}
	if !r.waited {
		waited = 0
	}
	keys, shared, use, token := publicKeys(r.keys), r.config.shared, r.used(), r.token.String()
	if r.waited && o.WaitEnded != nil {
		o.WaitEnded(r.caller, WaitEndedInfo{Keys: keys, Shared: shared, Use: use, Token: token, Waited: waited, Err: err})
	}
	if lock == nil {
		if o.Failed != nil && !r.refusedToPrimitive(err) {
			o.Failed(r.caller, FailedInfo{Keys: keys, Shared: shared, Use: use, Token: token, Try: r.try, Waited: waited, Err: err})
		}
		return
	}
	var own context.Context
	if o.Acquired != nil {
		own = o.Acquired(r.caller, AcquiredInfo{Keys: keys, Shared: shared, Use: use, Token: token, Waited: waited, Source: r.how(lock)})
	}
	lock.reportAcquired(r.caller, own)
}

// refusedToPrimitive reports whether err refuses a try of a primitive that looks for a free lock. The primitive reports
// the result of its own caller.
func (r *request) refusedToPrimitive(err error) bool {
	return r.try && r.config.use != nil && errors.Is(err, ErrNotAcquired)
}

// reportAcquired records that Acquired has been called, and what it returned. If the lock was lost meanwhile it calls
// Lost.
func (l *Lock) reportAcquired(ctx, own context.Context) {
	if own != nil {
		ctx = own
	}
	l.mu.Lock()
	x := l.lazyLocked()
	x.observed, x.ownContext = context.WithoutCancel(ctx), own != nil
	lost := x.unreported
	l.mu.Unlock()
	if lost != nil {
		l.reportLost(lost)
	}
}

// observed returns ctx with the values of the context that Acquired returned, if any.
func (l *Lock) observed(ctx context.Context) context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if x := l.lazy; x != nil && x.ownContext {
		return &observedContext{ctx, x.observed}
	}
	return ctx
}

func (r *request) how(lock *Lock) AcquireSource {
	if r.lock != nil {
		return AcquiredHanded
	}
	if !r.asked {
		return AcquiredFree
	}
	if p, ok := lock.hold.grant.(driver.PolledGrant); ok && p.Polled() {
		return AcquiredPolled
	}
	return AcquiredQueued
}

func (l *Lock) reportReleased(ctx context.Context) {
	o := l.hold.locker.config.observer
	if o == nil || o.Released == nil {
		return
	}
	l.mu.Lock()
	if x := l.lazy; x != nil && x.ownContext {
		ctx = x.observed
	}
	l.mu.Unlock()
	o.Released(ctx, ReleasedInfo{
		Keys: l.Keys(), Shared: l.hold.shared, Use: l.used(), Token: l.Token(), Held: driver.Now().Sub(l.since),
	})
}

// reportLost reports a loss: at once, or when the acquiring call has reported the lock.
func (l *Lock) reportLost(lost *LostError) {
	o := l.hold.locker.config.observer
	if o == nil || o.Lost == nil {
		return
	}
	l.mu.Lock()
	x := l.lazyLocked()
	ctx := x.observed
	if ctx == nil {
		x.unreported = lost
	}
	l.mu.Unlock()
	if ctx != nil {
		o.Lost(ctx, LostInfo{
			Keys: l.Keys(), Shared: l.hold.shared, Use: l.used(), Token: l.Token(), Held: driver.Now().Sub(l.since), Err: lost,
		})
	}
}

// observe reports a call for locks of a transaction that began at the given time.
func (c txConfig) observe(ctx context.Context, keys []Key, try bool, began driver.Instant, err error) {
	if c.observer == nil || c.observer.TxLocked == nil {
		return
	}
	took := time.Duration(0)
	if began != 0 {
		took = driver.Now().Sub(began)
	}
	c.observer.TxLocked(ctx, TxLockedInfo{Keys: keys, Shared: c.shared, Try: try, Took: took, Err: err})
}

func publicKeys(keys []driver.Key) []Key {
	public := make([]Key, len(keys))
	for i, key := range keys {
		public[i] = Key{k: key}
	}
	return public
}
