package pglock

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pglock-toolkit/pglock/internal/hooks"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// This file writes waits that last to the log. While calls wait, the Locker looks at all of them now and then, so a
// wait costs only the question whether a look is due. There is one line for each key, when the first of its calls has
// waited for as long as WithWarnAfter says, and again after each doubling.
//
// A line names no cycle. One that is known ends within seconds, and the error of the call that gives up names it. What
// lasts longer is at most suspected, since a process in it is frozen, and may be none.
//
// No wait is overlooked. A call counts as a waiter before it asks whether a look is due, and the last look is over
// before it counts the waiters: either the call finds no look due and begins one, or the look finds the call.

// waitWatch is what the Locker knows of waits that last.
type waitWatch struct {
	due atomic.Bool // looks go on

	mu      sync.Mutex
	others  map[*hooks.Waits]struct{} // in the queues of primitives
	written map[waitedFor]nextLine    // only a look uses it
}

// waitedFor is what calls wait for: a lock, or what a primitive makes of its locks.
type waitedFor struct {
	identity
	kind UseKind
}

// nextLine is when the next line about a wait is due.
type nextLine struct {
	at    driver.Instant
	after time.Duration
}

// longWait is what one line says.
type longWait struct {
	what  waitedFor
	key   Key
	since driver.Instant // of the call that waits longest
	calls int
	asks  []driver.Key // of the locks whose holders are named
	here  *Holder      // in this process, if that is known
}

// watchWaits is called by each call that has to wait. A log that discards costs the server no questions.
func (l *Locker) watchWaits() {
	logs := l.waits.due.Load() || l.config.env.Logger.Enabled(context.Background(), slog.LevelWarn)
	if logs && l.waits.due.CompareAndSwap(false, true) {
		l.lookLater()
	}
}

func (l *Locker) lookLater() { time.AfterFunc(l.config.warnAfter/looksInTime, l.look) }

// look writes the lines that are due. Looks do not overlap.
func (l *Locker) look() {
	l.writeWaits(driver.Now())
	if l.anyWaits() {
		l.lookLater()
		return
	}
	l.waits.due.Store(false)
	if l.anyWaits() {
		l.watchWaits()
	}
}

func (l *Locker) anyWaits() bool {
	return len(l.waits.ofPrimitives()) > 0 || l.Stats().Waiting > 0
}

func (l *Locker) writeWaits(now driver.Instant) {
	written := l.waits.written
	l.waits.written = map[waitedFor]nextLine{}
	var due []longWait
	for what, w := range l.allWaits() {
		next, again := written[what]
		if !again {
			next = nextLine{w.since.Add(l.config.warnAfter), l.config.warnAfter}
		}
		if now.Sub(w.since) < l.config.warnAfter {
			continue
		}
		if now >= next.at {
			due = append(due, *w)
			next = nextLine{now.Add(next.after), 2 * next.after}
		}
		l.waits.written[what] = next
	}
	slices.SortFunc(due, func(a, b longWait) int { return cmp.Compare(a.since, b.since) })
	for _, w := range due[:min(len(due), mostNamed)] {
		l.warn("waiting for a lock", w.key, w.what.kind, "waited", roundForPeople(now.Sub(w.since)), "since", wallTime(w.since),
			"calls", w.calls, "held_by", l.holderOf(w))
	}
	if more := len(due) - mostNamed; more > 0 {
		l.config.env.Logger.Warn("waiting for more locks", "keys", more)
	}
}

// allWaits returns what calls wait for, except where a wait is what its caller expects: a candidate's for the leader's
// lock, and a run's of a job.
func (l *Locker) allWaits() map[waitedFor]*longWait {
	all := map[waitedFor]*longWait{}
	l.mu.Lock()
	for r := range l.asking {
		l.addWait(all, r, 1)
	}
	l.mu.Unlock()
	l.eachEntry(func(e *entry) { l.addQueueLocked(all, e) })
	for _, w := range l.waits.ofPrimitives() {
		if since, calls := w.Now(); calls > 0 {
			use := w.Use.(Use)
			what := waitedFor{l.identityOf(use.Key.k), use.Kind}
			all[what] = &longWait{what: what, key: use.Key, since: since, calls: calls, asks: driverKeys(w.Keys.([]Key))}
		}
	}
	return all
}

// ofPrimitives returns the waits in the queues of primitives. They are asked without mu, which primitives lock under
// their own.
func (w *waitWatch) ofPrimitives() []*hooks.Waits {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Keys(w.others))
}

func (l *Locker) addQueueLocked(all map[waitedFor]*longWait, e *entry) {
	if len(e.queue) == 0 {
		return
	}
	first := e.queue[0]
	w := l.addWait(all, first, len(e.queue))
	if w != nil && e.hold != nil {
		lock := e.hold.locks[0]
		w.here = &Holder{Self: true, Since: wallTime(lock.since)}
	}
}

func (l *Locker) addWait(all map[waitedFor]*longWait, r *request, calls int) *longWait {
	key := r.keys[0]
	what := waitedFor{identity: l.identityOf(key)}
	w := &longWait{key: Key{k: key}, since: r.since}
	if use := r.config.use; use != nil {
		if use.Kind == UseLeader || use.Kind == UseTick || hooks.IsInternal(string(use.Kind)) {
			return nil
		}
		what.kind, w.key = use.Kind, use.Key
	}
	if known := all[what]; known != nil {
		w = known
	} else {
		w.what, w.asks = what, slices.Clone(r.keys)
		all[what] = w
	}
	w.since, w.calls = min(w.since, r.since), w.calls+calls
	return w
}

// holderOf says who holds what calls wait for.
func (l *Locker) holderOf(w longWait) string {
	if w.here != nil {
		return holderText(*w.here)
	}
	return holdersText(l.whoHolds(w.asks, false))
}

// warn writes a warning about a lock, by the key that its callers know.
func (l *Locker) warn(message string, key Key, kind UseKind, args ...any) {
	about := []any{"key", key}
	if kind != UseLock {
		about = append(about, "use", string(kind))
	}
	l.config.env.Logger.Warn(message, append(about, args...)...)
}

// watch is [hooks.Watch].
func (l *Locker) watch(w *hooks.Waits) (stop func()) {
	l.waits.mu.Lock()
	if l.waits.others == nil {
		l.waits.others = map[*hooks.Waits]struct{}{}
	}
	l.waits.others[w] = struct{}{}
	l.waits.mu.Unlock()
	l.watchWaits()
	return func() {
		l.waits.mu.Lock()
		defer l.waits.mu.Unlock()
		delete(l.waits.others, w)
	}
}

func wallTime(at driver.Instant) time.Time {
	return time.Now().Add(-driver.Now().Sub(at)).UTC().Truncate(time.Millisecond)
}

const (
	looksInTime = 5  // in the time of WithWarnAfter
	mostNamed   = 10 // locks that a look at waits, or Close, names
)
