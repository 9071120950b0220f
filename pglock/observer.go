package pglock

import (
	"context"
	"time"
)

// Observer is called with what happens to the locks of a [Locker], for metrics and traces. It returns ctx, or a
// context derived from it. The context that it returns for one event is that of the lock's later events: the context
// for [EventWaitStarted] is passed to the later events of that call, the one for [EventAcquired] to the event that
// ends the lock. Functions of Do and TryDo get the latter's values. So a span can begin with one event and end with
// another. What it returns for other events does not matter.
//
// It may be called concurrently. It runs on the caller's goroutine, outside of the Locker's mutexes, and delays the
// call: it should be quick. Only losses are usually reported in the background, one after another, so a slow Observer
// does not delay the end of any lock. A panic reaches the caller, which then holds no lock; in the background it ends
// the program, as in any goroutine.
type Observer func(ctx context.Context, e Event) context.Context

// Event is what an [Observer] learns. Fields that do not apply to its Type are zero.
type Event struct {
	Type EventType

	Keys   []Key // of the lock; for a permit the key of its semaphore; none for records
	Shared bool
	Use    Use
	Token  string // as [Lock.Token]; empty for permits, and for locks of transactions

	// Took is how long the call waited (zero if it did not have to), or the lock was held, or the call or the function
	// took.
	Took time.Duration
	// Err is the error that the call returns, or the *[LostError]; nil if there is none.
	Err error

	Try    bool   // the call was one that does not wait
	Source Source // of a lock that was acquired

	// Due is when a run of a job was due, and Ran says whether its function was run. ID is what a call of package once,
	// or ratelimit, was about.
	Due time.Time
	ID  string
	Ran bool

	locker *Locker
	asks   []Key // what Holders asks about
}

// EventType says what has happened.
type EventType string

// The types of events.
const (
	// EventWaitStarted: a call cannot have its lock at once. EventWaitEnded follows, with the time that it waited, and
	// Err unless the lock was granted.
	EventWaitStarted EventType = "wait started"
	EventWaitEnded   EventType = "wait ended"
	// EventAcquired: a call is about to return with its lock. One of EventReleased and EventLost follows.
	EventAcquired EventType = "acquired"
	// EventFailed: a call has not acquired its lock: a try was refused, a wait ended, or the server could not be
	// reached. There is none for misuse, such as an invalid key.
	EventFailed EventType = "failed"
	// EventReleased: the lock was unlocked and had not been lost. Took is how long it was held.
	EventReleased EventType = "released"
	// EventLost: the lock has ended otherwise, and its contexts with it. It is reported in the background, or by the
	// Unlock that found the loss. Close waits for the report, at most some seconds.
	EventLost EventType = "lost"
	// EventTxLocked: a call that locks in a transaction returns: LockTx, TryLockTx, LockAllTx, BeginFunc, or the result
	// of a lock in a batch, where Took is zero. Such a call reports only to the Observer of its own [WithObserver]. The
	// end of the transaction, which frees the lock, is not reported.
	EventTxLocked EventType = "locked in a transaction"
	// EventRecorded: a primitive that keeps records has its answer: a run of package schedule has ended, or turned out
	// to be done already, or a call of package once or ratelimit returns. These two report only to the Observer of
	// their own option. Err matches ErrNotAcquired if the answer was no. Use has the key of the primitive.
	EventRecorded EventType = "recorded"
)

// Holders asks the server for the holders of the first of the keys that has any, as [Locker.Holders] does for one key.
// It takes at least one round trip, so an Observer should call it in the background, and only for some waits. It
// returns none but for an EventWaitStarted, and for permits of a semaphore.
func (e Event) Holders(ctx context.Context) ([]Holder, error) {
	if e.locker == nil {
		return nil, nil
	}
	for _, key := range e.asks {
		if holders, err := e.locker.Holders(ctx, key); err != nil || len(holders) > 0 {
			return holders, err
		}
	}
	return nil, nil
}

// observe calls o, if there is one, and returns the context for later events.
func (o Observer) observe(ctx context.Context, e Event) context.Context {
	if o == nil {
		return ctx
	}
	if own := o(ctx, e); own != nil {
		return own
	}
	return ctx
}

// Source is how a lock came to its holder.
type Source string

// The sources of a lock.
const (
	SourceFree    Source = "free"    // the server granted it without a wait there
	SourceHandoff Source = "handoff" // from another holder in this process, without asking the server
	SourceQueued  Source = "queued"  // after a wait for other processes
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

// WithObserver makes a Locker report to o what happens to its locks, or a single call that locks in a transaction
// report itself. A nil observer is none.
func WithObserver(o Observer) CommonOption {
	return commonOption{
		func(c *lockerConfig) error { c.observer = o; return nil },
		func(c *txConfig) error { c.observer = o; return nil },
	}
}
