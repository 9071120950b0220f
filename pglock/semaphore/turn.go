package semaphore

import (
	"time"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// turn is the time in which a process may pass slots on among its own waiters. When the handoff limit is reached, the
// process gives one slot back for the other processes, and its next turn begins. Giving back all slots would not help
// the others sooner: they would take the first, and the rest would be idle until the next look.
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

// begin starts a new turn when a slot is given back.
func (t *turn) begin(now driver.Instant) { t.since, t.passed = now, 0 }

// came notes that a slot has come from the server. It does not extend a turn that has not ended.
func (t *turn) came(now driver.Instant) {
	if now.Sub(t.since) >= t.lasting {
		t.begin(now)
	}
}
