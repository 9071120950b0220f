package pglock

import (
	"context"
	"time"
)

// Observer is called with what happens to the locks of a [Locker], for metrics and traces. The context is that of the
// call, for its values. A span can be made when it is over, from [Event].Took.
//
// It may be called concurrently. It runs on the caller's goroutine, outside of the Locker's mutexes, and delays the
// call: it should be quick. Only losses are usually reported in the background, one after another, so a slow Observer
// does not delay the end of any lock. It must not panic.
type Observer func(ctx context.Context, e Event)

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

	Try bool // the call was one that does not wait

	// Due is when a run of a job was due, and Ran says whether its function was run. ID is what a call of package once,
	// or ratelimit, was about.
	Due time.Time
	ID  string
	Ran bool
}

// EventType says what has happened.
type EventType string

// The types of events.
const (
	// EventWaitStarted: a call cannot have its lock at once. EventWaitEnded follows, with the time that it waited, and
	// Err unless the lock was granted.
	EventWaitStarted EventType = "wait started"
	EventWaitEnded   EventType = "wait ended"
	// EventAcquired: a call is about to return with its lock. There is one EventReleased or EventLost for each.
	EventAcquired EventType = "acquired"
	// EventFailed: a call has not acquired its lock: a try was refused, a wait ended, or the server could not be
	// reached. There is none for misuse, such as an invalid key.
	EventFailed EventType = "failed"
	// EventReleased: the lock was unlocked and had not been lost. Took is how long it was held.
	EventReleased EventType = "released"
	// EventLost: the lock has ended otherwise, and its contexts with it. It is reported in the background (if it
	// comes with the grant, maybe before EventAcquired), or by the Unlock that found the loss. Close waits for the
	// report, at most some seconds.
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

// observe calls o, if there is one.
func (o Observer) observe(ctx context.Context, e Event) {
	if o != nil {
		o(ctx, e)
	}
}

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
