package semaphore

import (
	"time"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// turn is the time in which a process may pass its slots on among its own waiters. When the handoff limit is reached it
// gives one slot back for the other processes, and its next turn begins. To give back all slots whose time has come would
// help the others no sooner, since they take the first; the rest would lie idle until the next look.
type turn struct {
	handoffs int // the Locker's handoff limit
	lasting  time.Duration

	since  driver.Instant
	passed int
}

// lasts reports whether a slot may be passed on.
func (t *turn) lasts(now driver.Instant) bool {
	return t.passed < t.handoffs && now.Sub(t.since) < t.lasting
}

// begin notes that a slot is given back.
func (t *turn) begin(now driver.Instant) { t.since, t.passed = now, 0 }

// came notes that a slot has come from the server. A turn that has not ended does not become longer.
func (t *turn) came(now driver.Instant) {
	if now.Sub(t.since) >= t.lasting {
		t.begin(now)
	}
}
