package pglock

import (
	"time"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// watch lets the log tell that a call in a transaction waits, after a while and again after each doubling, until it is
// stopped. It cannot say who holds the lock, since its connection waits.
func (c txConfig) watch(key Key) (stop func()) {
	since, over := driver.Now(), make(chan struct{})
	first := time.AfterFunc(defaultWarnAfter, func() {
		for waited := defaultWarnAfter; ; waited *= 2 {
			c.logger.Warn("waiting for a lock", "key", key, "use", "transaction", "waited", waited, "since", wallTime(since))
			select {
			case <-over:
				return
			case <-time.After(waited):
			}
		}
	})
	return func() {
		first.Stop()
		close(over)
	}
}
