package monitor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Outcome is the effect of a signal, as the server shows it afterwards.
type Outcome struct {
	// Signal is what was sent, "cancel" or "terminate", and Target the session that it was sent to.
	Signal string
	Target Target
	// Sent says that the server has sent the signal. It does not say whether the signal had an effect.
	Sent bool
	// Ended says that the session has ended.
	Ended bool
	// Locks are the locks that the session held, in the order of Target.Holds.
	Locks []LockOutcome

	stateChanged bool
	stillWaits   bool   // it waited for a lock of any type, and waits for the same lock afterwards
	stillBlocks  int    // how many of Target.OtherWaiters wait for the session afterwards
	stillWait    int    // how many of them wait for any
	next         string // who blocks the first of these
}

// LockOutcome is what happened to a lock.
type LockOutcome struct {
	// Lock is the lock as it was before.
	Lock Lock
	// Kept says that the session still holds it.
	Kept bool
	// Holders are the other sessions that hold it now. If there are none and Kept is false, the lock is free.
	Holders []Holder
}

// passedOn reports whether the lock has a holder now that did not hold it before.
func (o LockOutcome) passedOn() bool {
	return slices.ContainsFunc(o.Holders, func(now Holder) bool {
		return !slices.ContainsFunc(o.Lock.Holders, func(before Holder) bool { return before.ID() == now.ID() })
	})
}

// compare fills in what happened to the locks.
func (o *Outcome) compare(now *Snapshot) {
	type place struct {
		inRow    bool
		database uint32
		objsubid int16
		number   int64
	}
	placeOf := func(l *Lock) place { return place{l.InRow, l.DatabaseOID, l.Objsubid, l.Number} }
	current := map[place]*Lock{}
	for i := range now.Locks {
		current[placeOf(&now.Locks[i])] = &now.Locks[i]
	}
	target := o.Target.ID()
	for _, lock := range o.Target.Holds {
		result := LockOutcome{Lock: lock, Holders: []Holder{}}
		if is := current[placeOf(&lock)]; is != nil {
			for _, holder := range is.Holders {
				if holder.ID() == target && !o.Ended {
					result.Kept = true
				} else if holder.ID() != target || holder.Lease == nil {
					result.Holders = append(result.Holders, holder)
				}
			}
		}
		o.Locks = append(o.Locks, result)
	}
	tree := now.Tree()
	if n := tree.Node(target); n != nil && n.Wait != nil && !o.Ended {
		o.stillWaits = slices.ContainsFunc(o.Target.Waits, func(before Wait) bool { return before.Label() == n.Wait.Label() })
	}
	for _, before := range o.Target.OtherWaiters {
		n := tree.Node(before.ID())
		if n == nil || n.Wait == nil {
			continue
		}
		o.stillWait++
		if n.Blocker != nil {
			o.next = cmp.Or(o.next, n.Blocker.Who())
		}
		if !o.Ended && slices.ContainsFunc(n.Wait.BlockedBy, func(b Blocker) bool { return b.ID() == target }) {
			o.stillBlocks++
		}
	}
}

// Effective reports whether the signal had an effect. Terminating is effective if the session has ended. Cancelling
// is effective if the session has ended, one of its locks was freed, its wait is over, or a session that it blocked
// continues. For a session that neither held nor waited for a lock, a change of its state is enough.
func (o Outcome) Effective() bool {
	if o.Ended || o.Signal == signalTerminate {
		return o.Ended
	}
	held := o.count()
	switch t := o.Target; {
	case held.kept < len(o.Locks) || len(t.Waits) > 0 && !o.stillWaits || o.stillBlocks < len(t.OtherWaiters):
		return true
	case len(o.Locks) == 0 && len(t.Waits) == 0:
		return o.stateChanged
	}
	return false
}

// lockCounts counts locks by what happened to them.
type lockCounts struct {
	free   int // without a holder
	passed int // with a new holder
	shared int // which others hold as before
	kept   int // which the session still holds
}

func (o Outcome) count() (f lockCounts) {
	for _, result := range o.Locks {
		switch {
		case result.Kept:
			f.kept++
		case result.passedOn():
			f.passed++
		case len(result.Holders) > 0:
			f.shared++
		default:
			f.free++
		}
	}
	return f
}

// String describes the outcome in one line.
func (o Outcome) String() string {
	if !o.Sent {
		return "nothing was signalled"
	}
	locks := o.count()
	var parts []string
	if locks.free > 0 {
		parts = append(parts, plural(locks.free, "lock is free", "locks are free"))
	}
	if locks.passed > 0 {
		parts = append(parts, plural(locks.passed, "lock passed to the next waiter", "locks passed to the next waiter"))
	}
	if locks.shared > 0 {
		parts = append(parts, plural(locks.shared, "lock is not free, since others share it",
			"locks are not free, since others share them"))
	}
	if locks.kept > 0 {
		parts = append(parts, plural(locks.kept, "lock is still held by it", "locks are still held by it"))
	}
	if len(parts) == 0 {
		parts = append(parts, "it held no advisory lock")
	}
	if all := len(o.Target.OtherWaiters); all > 0 {
		parts = append(parts, fmt.Sprintf("of %s behind it %d can go on",
			plural(all, "session that waited", "sessions that waited"), all-o.stillWait))
		if o.next != "" {
			parts = append(parts, "next in the way is "+o.next)
		}
	}
	what := fmt.Sprintf("session %d", o.Target.PID)
	if o.Target.Lease != nil {
		what = "process " + o.Target.Ref
	}
	return fmt.Sprintf("%s %s: %s", what, o.effectText(), strings.Join(parts, ", "))
}

func (o Outcome) effectText() string {
	switch {
	case o.Target.Lease != nil:
		return "has lost its locks in rows, and is told at its next renewal"
	case o.Ended:
		return "has ended"
	case o.Signal == signalTerminate:
		return fmt.Sprintf("was signalled to end, and is still there after %v (if it is stopped on its host, it ends after kill -CONT)", effectTime)
	case o.stillWaits:
		return "was cancelled, and waits still or again"
	case len(o.Target.Waits) > 0:
		return "was cancelled, and does not wait any more"
	case o.Target.CancelIsNoop():
		return fmt.Sprintf("was %s, so there was nothing to cancel", o.Target.State)
	}
	return "was cancelled"
}
