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
	l.watchWaits()
	o := l.config.observer
	if o == nil || o.WaitStarted == nil {
		return
	}
	if ctx := o.WaitStarted(r.caller, WaitStartedInfo{r.info(), l}); ctx != nil {
		r.caller = ctx
	}
}

// info is what the Observer learns of the lock that r asks for.
func (r *request) info() LockInfo {
	info := LockInfo{Keys: publicKeys(r.keys), Shared: r.config.shared, Token: r.token.String()}
	if r.config.use != nil {
		info.Use = *r.config.use
	}
	return info
}

// name is the key by which the caller of a primitive knows the lock, or else its first own.
func (i LockInfo) name() Key {
	if i.Use.Kind != UseLock {
		return i.Use.Key
	}
	return i.Keys[0]
}

// info is what the Observer learns of l.
func (l *Lock) info() LockInfo {
	info := LockInfo{Keys: l.Keys(), Shared: l.hold.shared, Token: l.Token()}
	l.mu.Lock()
	defer l.mu.Unlock()
	if x := l.lazy; x != nil && x.use != nil {
		info.Use = *x.use
	}
	return info
}

// reportEnd reports the end of an acquiring call.
func (r *request) reportEnd(o *Observer, lock *Lock, waited time.Duration, err error) {
	if o == nil {
		return
	}
	if !r.waited {
		waited = 0
	}
	info := r.info()
	if r.waited && o.WaitEnded != nil {
		o.WaitEnded(r.caller, WaitEndedInfo{info, waited, err})
	}
	if lock == nil {
		if o.Failed != nil && !r.refusedToPrimitive(err) {
			o.Failed(r.caller, FailedInfo{info, r.try, waited, err})
		}
		return
	}
	var own context.Context
	if o.Acquired != nil {
		own = o.Acquired(r.caller, AcquiredInfo{info, waited, r.source(lock)})
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

func (r *request) source(lock *Lock) Source {
	if r.lock != nil {
		return SourceHandoff
	}
	if !r.asked {
		return SourceFree
	}
	if p, ok := lock.hold.grant.(driver.PolledGrant); ok && p.Polled() {
		return SourcePolled
	}
	return SourceQueued
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
	o.Released(ctx, ReleasedInfo{l.info(), driver.Now().Sub(l.since)})
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
		o.Lost(ctx, LostInfo{l.info(), driver.Now().Sub(l.since), lost})
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
	c.observer.TxLocked(ctx, TxLockedInfo{LockInfo{Keys: keys, Shared: c.shared}, try, took, err})
}

func publicKeys(keys []driver.Key) []Key {
	public := make([]Key, len(keys))
	for i, key := range keys {
		public[i] = Key{k: key}
	}
	return public
}
