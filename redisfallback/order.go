package redisfallback

import "slices"

// Calls for the same lock reach a node one after the other. Flushes may end in any order, so a withdrawal could
// otherwise overtake the attempt that it undoes, or undo the owner's next attempt.

// enqueueLocked queues calls. One on a lock with a pending call waits until that has ended.
func (n *node) enqueueLocked(calls []*call) {
	for _, c := range calls {
		n.trackLocked(c)
		if c.before == 0 {
			n.waiting = append(n.waiting, c)
		}
	}
}

// unblockedLocked reports whether c need not wait for another call.
func (n *node) unblockedLocked(c *call) bool {
	return !slices.ContainsFunc(c.about, func(h holding) bool { return n.last[h.lock] != nil })
}

// trackLocked makes c the last call that concerns its locks.
func (n *node) trackLocked(c *call) {
	if n.last == nil {
		n.last = map[string]*call{}
	}
	for i := range c.about {
		lock := c.about[i].lock
		if last := n.last[lock]; last != nil {
			last.followers = append(last.followers, c)
			c.before++
		}
		n.last[lock] = c
	}
}

// untrackLocked ends c and queues the calls that waited only for it.
func (n *node) untrackLocked(c *call) {
	c.ended = true
	if c.abandoned {
		n.abandoned--
	}
	for i := range c.about {
		if lock := c.about[i].lock; n.last[lock] == c {
			delete(n.last, lock)
		}
	}
	for _, follower := range c.followers {
		if follower.before--; follower.before == 0 {
			n.waiting = append(n.waiting, follower)
		}
	}
	c.followers = nil
}
