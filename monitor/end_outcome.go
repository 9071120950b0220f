package monitor

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
)

// Outcome is what a signal really did, as the server shows it afterwards.
type Outcome struct {
	// Signal is what was sent, and Condemned to whom.
	Signal    Signal
	Condemned Condemned
	// Sent says that the server has sent the signal. It says nothing about an effect.
	Sent bool
	// Ended says that the session is gone.
	Ended bool
	// StillWaits says that the session waited for a lock, of whichever kind, and waits for the same one still, or again.
	StillWaits bool
	// StillBlocks is how many of Condemned.OtherWaiters wait for the session still, or again.
	StillBlocks int
	// Locks are the locks that the session held, in the order of Condemned.Holds.
	Locks []Fate

	stateChanged bool
}

// Fate is what became of a lock.
type Fate struct {
	// Lock is the lock as it was before.
	Lock Lock
	// Kept says that the session holds it still.
	Kept bool
	// Holders are the others who hold it now. With none, and Kept false, it is free.
	Holders []Holder
}

// PassedOn reports whether somebody holds the lock now who did not before.
func (f Fate) PassedOn() bool {
	return slices.ContainsFunc(f.Holders, func(now Holder) bool {
		return !slices.ContainsFunc(f.Lock.Holders, func(before Holder) bool { return before.ID() == now.ID() })
	})
}

// compare sees what became of the locks.
func (o *Outcome) compare(now *Snapshot) {
	type place struct {
		database uint32
		objsubid int16
		number   int64
	}
	current := map[place]Lock{}
	for _, lock := range now.Locks {
		current[place{lock.DatabaseOID, lock.Objsubid, lock.Number}] = lock
	}
	find := func(lock Lock) Lock { return current[place{lock.DatabaseOID, lock.Objsubid, lock.Number}] }
	for _, lock := range o.Condemned.Holds {
		fate := Fate{Lock: lock, Holders: []Holder{}}
		for _, holder := range find(lock).Holders {
			if holder.PID == o.Condemned.PID && !o.Ended {
				fate.Kept = true
			} else {
				fate.Holders = append(fate.Holders, holder)
			}
		}
		o.Locks = append(o.Locks, fate)
	}
	for _, lock := range o.Condemned.WaitsFor {
		for _, waiter := range find(lock).Waiters {
			o.StillWaits = o.StillWaits || waiter.PID == o.Condemned.PID && !o.Ended
		}
	}
	for _, wait := range now.OtherWaits {
		for _, before := range o.Condemned.WaitsForOther {
			o.StillWaits = o.StillWaits || wait.PID == o.Condemned.PID && wait.Lock.same(before.Lock) && !o.Ended
		}
		for _, before := range o.Condemned.OtherWaiters {
			if wait.ID() == before.ID() && !o.Ended &&
				slices.ContainsFunc(wait.BlockedBy, func(b Blocker) bool { return b.PID == o.Condemned.PID }) {
				o.StillBlocks++
			}
		}
	}
}

// waited reports whether the session waited for a lock.
func (c Condemned) waited() bool { return len(c.WaitsFor)+len(c.WaitsForOther) > 0 }

// Effective reports whether the signal did what it was for: the session has ended, or, when it was cancelled, at least
// one of its locks was freed, its wait is over, or somebody whom it blocked goes on. Of a session that neither holds nor
// waits for a lock a cancel is effective when it does something else now.
func (o Outcome) Effective() bool {
	if o.Ended || o.Signal == SignalTerminate {
		return o.Ended
	}
	held := o.count()
	switch c := o.Condemned; {
	case held.kept < len(o.Locks) || c.waited() && !o.StillWaits || o.StillBlocks < len(c.OtherWaiters):
		return true
	case len(o.Locks) == 0 && !c.waited():
		return o.stateChanged
	}
	return false
}

// fates counts locks by what became of them.
type fates struct {
	// free are locks that nobody holds, passed those that got another holder, shared those that others hold as they did
	// before, and kept those that the session holds still.
	free, passed, shared, kept int
}

func (o Outcome) count() (f fates) {
	for _, fate := range o.Locks {
		switch {
		case fate.Kept:
			f.kept++
		case fate.PassedOn():
			f.passed++
		case len(fate.Holders) > 0:
			f.shared++
		default:
			f.free++
		}
	}
	return f
}

// String says in one line what happened.
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
	if all := len(o.Condemned.OtherWaiters); all > 0 {
		parts = append(parts, fmt.Sprintf("%d of %s for its other locks are not blocked by it any more",
			all-o.StillBlocks, plural(all, "session that waited", "sessions that waited")))
	}
	return fmt.Sprintf("session %d %s: %s", o.Condemned.PID, o.whatBecameOfIt(), strings.Join(parts, ", "))
}

func (o Outcome) whatBecameOfIt() string {
	switch {
	case o.Ended:
		return "has ended"
	case o.Signal == SignalTerminate:
		return fmt.Sprintf("was told to end, and is still there after %v", settleTime)
	case o.StillWaits:
		return "was cancelled, and waits still or again"
	case o.Condemned.waited():
		return "was cancelled, and does not wait any more"
	case o.Condemned.Futile():
		return fmt.Sprintf("was %s, so there was nothing to cancel", o.Condemned.State)
	}
	return "was cancelled"
}

// LogValue describes what was done to whom and what came of it, for a log.
func (o Outcome) LogValue() slog.Value {
	locks := o.count()
	return slog.GroupValue(append(o.Condemned.LogValue().Group(),
		slog.String("signal", string(o.Signal)),
		slog.Bool("sent", o.Sent),
		slog.Bool("ended", o.Ended),
		slog.Int("freed", locks.free),
		slog.Int("passed_on", locks.passed),
		slog.Int("still_shared", locks.shared),
		slog.Int("kept", locks.kept),
		slog.Int("still_blocks", o.StillBlocks),
	)...)
}
