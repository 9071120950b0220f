package pglock

import (
	"log/slog"
	"time"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// watchTx lets the log tell that a call in a transaction waits, after a while and again after each doubling, until it is
// stopped. It cannot say who holds the lock, since its connection waits. A batch is not watched: the server sends all
// its answers together, so that the work behind a lock would look like a wait.
func watchTx(log *slog.Logger, after time.Duration, key Key) (stop func()) {
	since, over := driver.Now(), make(chan struct{})
	first := time.AfterFunc(after, func() {
		for waited := after; ; waited *= 2 {
			log.Warn("waiting for a lock", "key", key, "use", "transaction", "waited", waited, "since", wallTime(since))
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
