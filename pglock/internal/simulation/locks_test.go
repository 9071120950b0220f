package simulation

import (
	"slices"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// locks is PostgreSQL's lock manager, as far as session locks of advisory keys go. The simulation's mu guards it.
type locks struct {
	all     map[driver.KeyID]*lock
	granted func(driver.KeyID, *process, bool) // called at each grant
}

type lock struct {
	held  []holding
	queue []*waiter // first come, first served
}

// holding is a lock that a session has. A session never has one twice: the engine promises that.
type holding struct {
	by     *process
	shared bool
}

type waiter struct {
	holding
	key     driver.KeyID
	granted chan struct{}
}

func conflict(a, b holding) bool { return a.by != b.by && (!a.shared || !b.shared) }

func (t *locks) of(key driver.KeyID) *lock {
	l := t.all[key]
	if l == nil {
		l = &lock{}
		t.all[key] = l
	}
	return l
}

// try grants the lock if no holder and no waiter is in the way.
func (t *locks) try(key driver.KeyID, h holding) bool {
	l := t.of(key)
	if l.blocks(h, l.queue) {
		return false
	}
	t.grant(key, l, h)
	return true
}

// blocks reports whether a holder, or one of the waiters ahead, is in the way.
func (l *lock) blocks(h holding, ahead []*waiter) bool {
	return slices.ContainsFunc(l.held, func(other holding) bool { return conflict(h, other) }) ||
		slices.ContainsFunc(ahead, func(w *waiter) bool { return conflict(h, w.holding) })
}

func (t *locks) grant(key driver.KeyID, l *lock, h holding) {
	l.held = append(l.held, h)
	t.granted(key, h.by, h.shared)
}

// wait queues for the lock.
func (t *locks) wait(key driver.KeyID, h holding) *waiter {
	w := &waiter{holding: h, key: key, granted: make(chan struct{})}
	l := t.of(key)
	l.queue = append(l.queue, w)
	t.wake(key)
	return w
}

// leave gives up a wait, and reports whether the lock had not been granted.
func (t *locks) leave(w *waiter) bool {
	l := t.of(w.key)
	i := slices.Index(l.queue, w)
	if i < 0 {
		return false
	}
	l.queue = slices.Delete(l.queue, i, i+1)
	t.wake(w.key)
	return true
}

// wake grants the lock to the waiters that nothing is in the way of.
func (t *locks) wake(key driver.KeyID) {
	l := t.of(key)
	var kept []*waiter
	for _, w := range l.queue {
		if l.blocks(w.holding, kept) {
			kept = append(kept, w)
			continue
		}
		t.grant(key, l, w.holding)
		close(w.granted)
	}
	l.queue = kept
}

// unlock releases a lock, and reports whether it was held.
func (t *locks) unlock(key driver.KeyID, h holding) bool {
	l := t.of(key)
	i := slices.Index(l.held, h)
	if i < 0 {
		return false
	}
	l.held = slices.Delete(l.held, i, i+1)
	t.wake(key)
	return true
}

// holds reports whether a session has the lock.
func (t *locks) holds(key driver.KeyID, h holding) bool { return slices.Contains(t.of(key).held, h) }

// of a session returns the keys that it has, in an order that does not vary.
func (t *locks) ofSession(p *process) (held []waiter) {
	for key, l := range t.all {
		for _, h := range l.held {
			if h.by == p {
				held = append(held, waiter{holding: h, key: key})
			}
		}
	}
	slices.SortFunc(held, func(a, b waiter) int { return int(a.key.Number - b.key.Number) })
	return held
}

// writerWaits reports whether an exclusive request waits.
func (t *locks) writerWaits(key driver.KeyID) bool {
	return slices.ContainsFunc(t.of(key).queue, func(w *waiter) bool { return !w.shared })
}
