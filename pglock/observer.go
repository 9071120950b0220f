package pglock

import (
	"context"
	"errors"
	"time"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// Observer is notified of what happens to the locks of a [Locker], for metrics and traces, as in net/http/httptrace. Every
// function may be nil. They may be called concurrently. The contexts carry the values of the call that acquired the lock,
// or of the one that released it.
//
// They are called on the goroutine of the call that they concern, outside of the Locker's own mutexes, and hold it up: they
// should be quick. Only Lost is usually called in the background, one loss after the other: however slow it is, no lock's
// end waits for it. A panic goes on to the caller, for whom nothing is locked then; in the background it ends the program,
// as in any goroutine.
type Observer struct {
	// WaitStarted is called when a call cannot have its lock at once. WaitEnded follows, always.
	WaitStarted func(context.Context, WaitStarted)
	WaitEnded   func(context.Context, WaitEnded)
	// Acquired is called before the acquiring call returns. Released or Lost follows, one of them, always.
	Acquired func(context.Context, Acquired)
	// Released is called after an Unlock that was not told of a loss.
	Released func(context.Context, Released)
	// Lost is called after the lock has ended otherwise, and its contexts with it: in the background, or by the Unlock that
	// found the loss. Close waits for it, for some seconds at most.
	Lost func(context.Context, Lost)
	// Ticked is called when a run of package schedule has ended, or was found to be done.
	Ticked func(context.Context, Ticked)
}

// WaitStarted is what an [Observer] learns of the beginning of a wait.
type WaitStarted struct {
	Keys   []Key
	Shared bool
	Use    Use
}

// WaitEnded is what an [Observer] learns of the end of a wait.
type WaitEnded struct {
	Keys   []Key
	Shared bool
	Use    Use
	Waited time.Duration
	Err    error // nil when the lock was granted
}

// Acquired is what an [Observer] learns of a lock that was granted.
type Acquired struct {
	Keys   []Key
	Shared bool
	Use    Use
	Waited time.Duration // zero when it did not have to wait
	How    How
}

// Released is what an [Observer] learns of a lock that was unlocked.
type Released struct {
	Keys   []Key
	Shared bool
	Use    Use
	Held   time.Duration
}

// Lost is what an [Observer] learns of a lock that was lost.
type Lost struct {
	Keys   []Key
	Shared bool
	Use    Use
	Held   time.Duration
	Err    *LostError
}

// How says how a lock came to its holder.
type How string

// The ways of a lock to its holder.
const (
	AcquiredFree   How = "free"    // the server had it to give, at once or after others of this process had given it up
	AcquiredHanded How = "handoff" // from another holder in this process, without asking the server
	AcquiredQueued How = "queued"  // after a wait in the server's queue
	AcquiredPolled How = "polled"  // after polling, without a place in the server's queue
)

// WithObserver makes the Locker tell o what happens to its locks. A nil observer is an error.
func WithObserver(o *Observer) Option {
	return lockerOption(func(c *lockerConfig) error {
		if o == nil {
			return errors.New("pglock: WithObserver: the observer is nil")
		}
		c.observer = o
		return nil
	})
}

// waits is called when r cannot go on at once.
func (r *request) waits(ctx context.Context, o *Observer) {
	if r.waited {
		return
	}
	r.waited = true
	if o != nil && o.WaitStarted != nil {
		o.WaitStarted(ctx, WaitStarted{Keys: publicKeys(r.keys), Shared: r.config.shared, Use: r.used()})
	}
}

// tells reports the end of an acquiring call.
func (r *request) tells(ctx context.Context, o *Observer, lock *Lock, waited time.Duration, err error) {
	if o == nil {
		return
	}
	if !r.waited {
		waited = 0
	}
	if r.waited && o.WaitEnded != nil {
		o.WaitEnded(ctx, WaitEnded{Keys: publicKeys(r.keys), Shared: r.config.shared, Use: r.used(), Waited: waited, Err: err})
	}
	if lock == nil {
		return
	}
	if o.Acquired != nil {
		o.Acquired(ctx, Acquired{Keys: publicKeys(r.keys), Shared: r.config.shared, Use: r.used(), Waited: waited, How: r.how(lock)})
	}
	lock.announce(ctx)
}

// announce notes that Acquired has been called, and calls Lost if that had to wait for it.
func (k *Lock) announce(ctx context.Context) {
	k.mu.Lock()
	x := k.more()
	x.observed = context.WithoutCancel(ctx)
	lost := x.untold
	k.mu.Unlock()
	if lost != nil {
		k.tellLost(lost)
	}
}

func (r *request) how(lock *Lock) How {
	if r.lock != nil {
		return AcquiredHanded
	}
	if !r.asked {
		return AcquiredFree
	}
	if p, ok := lock.hold.grant.(driver.Poller); ok && p.Polled() {
		return AcquiredPolled
	}
	return AcquiredQueued
}

func (k *Lock) tellReleased(ctx context.Context) {
	if o := k.hold.locker.config.observer; o != nil && o.Released != nil {
		o.Released(ctx, Released{Keys: k.Keys(), Shared: k.hold.shared, Use: k.used(), Held: driver.Now().Sub(k.since)})
	}
}

// tellLost reports a loss: at once, or when the acquiring call has reported the lock.
func (k *Lock) tellLost(lost *LostError) {
	o := k.hold.locker.config.observer
	if o == nil || o.Lost == nil {
		return
	}
	k.mu.Lock()
	x := k.more()
	ctx := x.observed
	if ctx == nil {
		x.untold = lost
	}
	k.mu.Unlock()
	if ctx != nil {
		o.Lost(ctx, Lost{Keys: k.Keys(), Shared: k.hold.shared, Use: k.used(), Held: driver.Now().Sub(k.since), Err: lost})
	}
}

func publicKeys(keys []driver.Key) []Key {
	public := make([]Key, len(keys))
	for i, key := range keys {
		public[i] = Key{k: key}
	}
	return public
}
