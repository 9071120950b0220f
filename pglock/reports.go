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
	if r.of != nil {
		r = r.of
	}
	if r.waited {
		return
	}
	r.waited = true
	l.watchWaits()
	if l.config.observer != nil {
		l.config.observer(r.caller, r.event(l, EventWaitStarted))
	}
}

// event is an event of the lock that r asks for.
func (r *request) event(l *Locker, what EventType) Event {
	e := Event{Type: what, Keys: publicKeys(r.keys), Shared: r.config.shared, Token: l.token(r.number), Try: r.try}
	if r.config.use != nil {
		e.Use = *r.config.use
	}
	return e
}

// event is an event of l, which has been held until now.
func (l *Lock) event(what EventType) Event {
	return Event{
		Type: what, Keys: l.Keys(), Shared: l.hold.shared, Token: l.Token(), Use: l.purpose(), Took: driver.Now().Sub(l.since),
	}
}

// purpose is what a primitive uses l for.
func (l *Lock) purpose() Use {
	if l.use != nil {
		return *l.use
	}
	return Use{}
}

// name is the key by which the caller of a primitive knows the lock, or else its first own.
func (l *Lock) name() Key { return l.nameOf(l.key[0]) }

// nameOf returns the key by which l's caller knows one of its keys.
func (l *Lock) nameOf(key driver.Key) Key {
	if use := l.purpose(); use.Kind != UseLock {
		return use.Key
	}
	return Key{k: key}
}

// reportEnd reports the end of an acquiring call.
func (l *Locker) reportEnd(r *request, waited time.Duration, err error) {
	o := l.config.observer
	if o == nil {
		return
	}
	e := r.event(l, EventWaitEnded)
	e.Err = err
	if r.waited {
		e.Took = waited
		o(r.caller, e)
	}
	switch {
	case err == nil:
		e.Type = EventAcquired
		o(r.caller, e)
	case !r.refusedToPrimitive(err):
		e.Type = EventFailed
		o(r.caller, e)
	}
}

// refusedToPrimitive reports whether err refuses a try of a primitive that looks for a free lock. The primitive reports
// the result of its own caller.
func (r *request) refusedToPrimitive(err error) bool {
	return r.try && r.config.use != nil && errors.Is(err, ErrNotAcquired)
}

// reportReleased reports the end of a lock that was unlocked.
func (l *Lock) reportReleased(ctx context.Context) {
	if o := l.hold.locker.config.observer; o != nil {
		o(ctx, l.event(EventReleased))
	}
}

// reportLost reports a loss.
func (l *Lock) reportLost(lost *LostError) {
	if o := l.hold.locker.config.observer; o != nil {
		e := l.event(EventLost)
		e.Err = lost
		o(context.Background(), e)
	}
}

// observe reports a call for locks of a transaction that began at the given time.
func (c txConfig) observe(ctx context.Context, keys []Key, try bool, began driver.Instant, err error) {
	e := Event{Type: EventTxLocked, Keys: keys, Shared: c.shared, Try: try, Err: err}
	if began != 0 {
		e.Took = driver.Now().Sub(began)
	}
	c.observer.observe(ctx, e)
}
