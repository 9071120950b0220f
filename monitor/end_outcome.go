package monitor

import (
	"fmt"
	"log/slog"
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
	// StillWaits says that the session waited for a lock, and waits for the same one still, or again.
	StillWaits bool
	// Locks are the locks that the session held, in the order of Condemned.Holds.
	Locks []Fate
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
}

// Effective reports whether the signal did what it was for: the session has ended, or, when it was cancelled, at least
// one of its locks was freed or its wait is over.
func (o Outcome) Effective() bool {
	if o.Ended || o.Signal == SignalTerminate {
		return o.Ended
	}
	_, _, kept := o.count()
	return kept < len(o.Locks) || len(o.Condemned.WaitsFor) > 0 && !o.StillWaits
}

// count counts the locks that are free, that others hold, and that the session holds still.
func (o Outcome) count() (free, passed, kept int) {
	for _, fate := range o.Locks {
		switch {
		case fate.Kept:
			kept++
		case len(fate.Holders) > 0:
			passed++
		default:
			free++
		}
	}
	return free, passed, kept
}

// String says in one line what happened.
func (o Outcome) String() string {
	if !o.Sent {
		return "nothing was signalled"
	}
	free, passed, kept := o.count()
	var parts []string
	if free > 0 {
		parts = append(parts, plural(free, "lock is free", "locks are free"))
	}
	if passed > 0 {
		parts = append(parts, plural(passed, "lock passed to the next waiter", "locks passed to the next waiter"))
	}
	if kept > 0 {
		parts = append(parts, plural(kept, "lock is still held by it", "locks are still held by it"))
	}
	if len(parts) == 0 {
		parts = append(parts, "it held no lock")
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
	case len(o.Condemned.WaitsFor) > 0:
		return "was cancelled, and does not wait any more"
	case o.Condemned.Futile():
		return fmt.Sprintf("was %s, so there was nothing to cancel", o.Condemned.State)
	}
	return "was cancelled"
}

// LogValue describes what was done to whom and what came of it, for a log.
func (o Outcome) LogValue() slog.Value {
	free, passed, kept := o.count()
	return slog.GroupValue(append(o.Condemned.LogValue().Group(),
		slog.String("signal", string(o.Signal)),
		slog.Bool("sent", o.Sent),
		slog.Bool("ended", o.Ended),
		slog.Int("freed", free),
		slog.Int("passed_on", passed),
		slog.Int("kept", kept),
	)...)
}
