package pglock

import (
	"context"
	"time"
)

// Observer is notified of what happens to the locks of a [Locker], for metrics and traces, as in net/http/httptrace. Every
// function may be nil, and may be called concurrently. The contexts carry the values of the call that acquired the lock,
// or of the call that released it.
//
// The functions run on the goroutine of the call that they report, outside of the Locker's mutexes, and delay it: they
// should be quick. Only Lost usually runs in the background, one loss after another, so a slow one does not delay the
// end of any lock. A panic reaches the caller, which then holds no lock; in the background it ends the program, as in
// any goroutine.
type Observer struct {
	// WaitStarted is called when a call cannot have its lock at once. WaitEnded always follows. The call's later events
	// get the context that WaitStarted returns, unless that is nil; they can end a span that it carries.
	WaitStarted func(context.Context, WaitStartedInfo) context.Context
	WaitEnded   func(context.Context, WaitEndedInfo)
	// Acquired is called before the acquiring call returns. Exactly one of Released and Lost follows. That event gets
	// the context that Acquired returns, unless that is nil, and the contexts that Do and TryDo give to their functions
	// have its values.
	Acquired func(context.Context, AcquiredInfo) context.Context
	// Failed is called when a call has not acquired its lock: a try was refused, a wait ended, or the server could not be
	// reached. It is not called for misuse, such as an invalid key.
	Failed func(context.Context, FailedInfo)
	// Released is called after an Unlock that found no loss.
	Released func(context.Context, ReleasedInfo)
	// Lost is called after the lock has ended otherwise, and its contexts with it: in the background, or by the Unlock that
	// found the loss. Close waits for it, for some seconds at most.
	Lost func(context.Context, LostInfo)
	// TxLocked is called when a call that locks in a transaction returns: LockTx, TryLockTx, LockAllTx, BeginFunc, and
	// the result of a lock in a batch. Such a call reports only to the Observer of its own [WithObserver].
	TxLocked func(context.Context, TxLockedInfo)
	// Recorded is called when a primitive that keeps records has its answer: when a run of package schedule has ended, or
	// turned out to be done already, and when a call of package once or ratelimit returns. These two report only to the
	// Observer of their own option.
	Recorded func(context.Context, RecordedInfo)
}

// LockInfo is what an [Observer] learns of every lock.
type LockInfo struct {
	Keys   []Key // of a permit of a semaphore, the semaphore's key
	Shared bool
	Use    Use
	Token  string // as [Lock.Token]; empty for permits, and for locks of transactions
}

// WaitStartedInfo is what an [Observer] learns of the beginning of a wait.
type WaitStartedInfo struct {
	LockInfo

	locker *Locker
}

// Holders asks the server for the holders of the first of the keys that has any, as [Locker.Holders] does for one key. It
// takes at least one round trip, so an Observer should call it in the background, and only for some waits. It returns none
// for permits of a semaphore.
func (w WaitStartedInfo) Holders(ctx context.Context) ([]Holder, error) {
	if w.locker == nil {
		return nil, nil
	}
	for _, key := range w.Keys {
		if holders, err := w.locker.Holders(ctx, key); err != nil || len(holders) > 0 {
			return holders, err
		}
	}
	return nil, nil
}

// WaitEndedInfo is what an [Observer] learns of the end of a wait.
type WaitEndedInfo struct {
	LockInfo

	Waited time.Duration
	Err    error // nil when the lock was granted
}

// AcquiredInfo is what an [Observer] learns of a lock that was granted.
type AcquiredInfo struct {
	LockInfo

	Waited time.Duration // zero when it did not have to wait
	Source Source
}

// FailedInfo is what an [Observer] learns of a call that has not acquired its lock.
type FailedInfo struct {
	LockInfo

	Try    bool          // the call was one that does not wait
	Waited time.Duration // zero when it did not wait
	Err    error         // what the call returns
}

// TxLockedInfo is what an [Observer] learns of a call that locks in a transaction. The end of the transaction, which frees the
// lock, is not reported.
type TxLockedInfo struct {
	LockInfo

	Try  bool          // the call was one that does not wait
	Took time.Duration // of the call, its round trips and its wait; zero in a batch
	Err  error         // what the call returns; nil when the locks were granted
}

// ReleasedInfo is what an [Observer] learns of a lock that was unlocked.
type ReleasedInfo struct {
	LockInfo

	Held time.Duration
}

// LostInfo is what an [Observer] learns of a lock that was lost.
type LostInfo struct {
	LockInfo

	Held time.Duration
	Err  *LostError
}

// RecordedInfo is what an [Observer] learns of a call of a primitive that keeps records.
type RecordedInfo struct {
	// Use says which primitive it was: UseTick, UseOnce or UseRate, and its key.
	Use Use
	// Due is when a run of a job was due. ID is what a call of package once, or ratelimit, was about.
	Due time.Time
	ID  string
	// Ran says whether a job's function was run.
	Ran bool
	// Took is how long the function ran, or how long the answer took.
	Took time.Duration
	// Err is what the call returns. It matches ErrNotAcquired if the answer was no.
	Err error
}

// Source is how a lock came to its holder.
type Source string

// The sources of a lock.
const (
	SourceFree    Source = "free"    // the server granted it without a wait there
	SourceHandoff Source = "handoff" // from another holder in this process, without asking the server
	SourceQueued  Source = "queued"  // after a wait in the server's queue
	SourcePolled  Source = "polled"  // after polling, without a place in the server's queue
)

// Use says what a lock is for, in reports to an [Observer]. The zero Use is a lock that was asked for directly.
type Use struct {
	Kind UseKind
	Key  Key // of the primitive; the lock's own key may be derived from it
}

// UseKind is a kind of [Use]. Primitives also take locks for their own purposes, whose kinds have no constants.
type UseKind string

// The kinds of uses.
const (
	UseLock   UseKind = ""                 // a lock that was asked for directly
	UseLeader UseKind = "leader"           // the lock of a leader, see package leader
	UsePermit UseKind = "semaphore permit" // a slot of a semaphore, see package semaphore
	UseTick   UseKind = "tick"             // the lock of a job that runs once for each due time, see package schedule
	UseOnce   UseKind = "once"             // work that is done once, see package once
	UseRate   UseKind = "rate limit"       // an event of a rate limit, see package ratelimit
)

// WithObserver makes a Locker report to o what happens to its locks, or a single call that locks in a transaction report
// itself. [Observers] joins several. A nil observer is none.
func WithObserver(o *Observer) CommonOption { return observedBy{o} }

type observedBy struct{ observer *Observer }

func (o observedBy) applyLocker(c *lockerConfig) error { return o.set(&c.observer) }
func (o observedBy) applyTx(c *txConfig) error         { return o.set(&c.observer) }

func (o observedBy) set(to **Observer) error {
	*to = o.observer
	return nil
}

// Observers returns an Observer that reports to each of observers, in order. A context that one returns is passed to
// the next, and the last one returned counts. Nil observers are left out.
func Observers(observers ...*Observer) *Observer {
	return &Observer{
		WaitStarted: func(ctx context.Context, e WaitStartedInfo) context.Context {
			return passThrough(ctx, e, observers, func(o *Observer) func(context.Context, WaitStartedInfo) context.Context { return o.WaitStarted })
		},
		Acquired: func(ctx context.Context, e AcquiredInfo) context.Context {
			return passThrough(ctx, e, observers, func(o *Observer) func(context.Context, AcquiredInfo) context.Context { return o.Acquired })
		},
		WaitEnded: toAll(observers, func(o *Observer) func(context.Context, WaitEndedInfo) { return o.WaitEnded }),
		Failed:    toAll(observers, func(o *Observer) func(context.Context, FailedInfo) { return o.Failed }),
		Released:  toAll(observers, func(o *Observer) func(context.Context, ReleasedInfo) { return o.Released }),
		Lost:      toAll(observers, func(o *Observer) func(context.Context, LostInfo) { return o.Lost }),
		TxLocked:  toAll(observers, func(o *Observer) func(context.Context, TxLockedInfo) { return o.TxLocked }),
		Recorded:  toAll(observers, func(o *Observer) func(context.Context, RecordedInfo) { return o.Recorded }),
	}
}

// passThrough calls one function of each observer, and returns the context that the last of them has returned; nil when
// none has.
func passThrough[E any](
	ctx context.Context, e E, observers []*Observer, of func(*Observer) func(context.Context, E) context.Context,
) (changed context.Context) {
	for _, o := range observers {
		if o == nil || of(o) == nil {
			continue
		}
		if own := of(o)(ctx, e); own != nil {
			ctx, changed = own, own
		}
	}
	return changed
}

// toAll returns a function that calls one function of each observer.
func toAll[E any](observers []*Observer, of func(*Observer) func(context.Context, E)) func(context.Context, E) {
	return func(ctx context.Context, e E) {
		for _, o := range observers {
			if o != nil && of(o) != nil {
				of(o)(ctx, e)
			}
		}
	}
}
