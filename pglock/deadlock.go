package pglock

import (
	"fmt"
	"strings"
	"time"

	"github.com/pglock-toolkit/pglock/internal/shorttext"
)

// DeadlockError reports that a call would have waited for ever: for a lock whose holder waits, directly or through
// others, for the call itself. The call acquired nothing and still holds its earlier locks: release them, and begin
// again. It matches [ErrDeadlock], and [ErrSelfDeadlock] if the call would have waited for itself. It does not match
// [ErrNotAcquired], which is for locks that become free.
type DeadlockError struct {
	// Keys are the requested keys.
	Keys []Key
	// Cycle are the calls that wait for each other, this one first. Each waits for what the next one holds, and the
	// last one for what this one holds.
	Cycle []DeadlockedCall

	at time.Time // when it was made, from which its text counts
}

// DeadlockedCall is a call in the cycle of a [DeadlockError].
type DeadlockedCall struct {
	// Holds is what the call before it waits for, and HeldSince when that was granted: the time is zero if it is
	// not known, as of a call of another process.
	Holds     Key
	HeldSince time.Time
	// Waits is the key that it waits for, and WaitsSince when that began. The zero Key is a lock of another kind, such
	// as that of a row of a table.
	Waits      Key
	WaitsSince time.Time
	// By is the session that has published the call, if it is one of another process, which publishes no names of keys.
	By string
}

// deadlock returns the error of w, which would complete the cycle.
func deadlock(w *wait, cycle []step) error {
	e := &DeadlockError{Keys: w.requested(), at: time.Now()}
	last := cycle[len(cycle)-1]
	for _, s := range cycle {
		call := DeadlockedCall{
			Holds: last.lock.nameOf(last.key), Waits: s.lock.nameOf(s.key), WaitsSince: s.from.since,
		}
		if s.from.name != nil {
			call.Waits = *s.from.name
		}
		call.HeldSince = wallTime(last.lock.since)
		e.Cycle = append(e.Cycle, call)
		last = s
	}
	return e
}

// requested returns the keys that w's caller has asked for.
func (w *wait) requested() []Key {
	if w.name != nil {
		return []Key{*w.name}
	}
	return publicKeys(w.asked)
}

func (e *DeadlockError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "pglock: lock %s not acquired: ", keyText(e.Keys[0], len(e.Keys)-1))
	if first := e.Cycle[0]; len(e.Cycle) == 1 {
		fmt.Fprintf(&b, "%v: its context descends from that of a Lock of %s, which is held (use that Lock, or a context from before it)",
			ErrSelfDeadlock, keyText(first.Holds, 0))
		return b.String()
	}
	fmt.Fprintf(&b, "%v: %s is ", ErrDeadlock, e.Cycle[0].waits())
	for i, call := range e.Cycle[1:] {
		if i > 0 {
			b.WriteString(", which is ")
		}
		fmt.Fprintf(&b, "held%s by a call%s that waits%s for %s",
			e.ago(call.HeldSince), call.of(), e.ago(call.WaitsSince), call.waits())
	}
	fmt.Fprintf(&b, ", which this call holds%s", e.ago(e.Cycle[0].HeldSince))
	b.WriteString(" (give up what is held and begin again; take several locks with LockAll, or everywhere in one order)")
	return b.String()
}

// waits says what c waits for.
func (c DeadlockedCall) waits() string {
	if c.Waits.check() != nil {
		return "another lock"
	}
	return keyText(c.Waits, 0)
}

// of says whose call it is.
func (c DeadlockedCall) of() string {
	if c.By == "" {
		return ""
	}
	return " of " + shorttext.Quote(c.By)
}

// ago says how long something had lasted when the error was made.
func (e *DeadlockError) ago(since time.Time) string {
	if since.IsZero() || e.at.Before(since) {
		return ""
	}
	return fmt.Sprintf(" for %v", roundForPeople(max(e.at.Sub(since), time.Microsecond).Round(time.Microsecond)))
}

// Is makes the error match [ErrDeadlock], and [ErrSelfDeadlock] if there is no other call.
func (e *DeadlockError) Is(target error) bool {
	return target == ErrDeadlock || target == ErrSelfDeadlock && len(e.Cycle) == 1
}
