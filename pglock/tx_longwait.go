package pglock

import (
	"cmp"
	"log/slog"
	"sync"
	"time"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// txWait is a call that locks in a transaction. Nothing else knows of it, so it looks at itself, and of those for one
// key one writes, until it ends. It cannot say who holds the lock, since its connection waits.
type txWait struct {
	key    Key // the first of several
	since  driver.Instant
	logger *slog.Logger
	next   *time.Timer
	over   bool
}

// txWriters are those that write.
var txWriters = struct {
	sync.Mutex
	of map[driver.KeyID]*txWait
}{of: map[driver.KeyID]*txWait{}}

// watch looks at a call that locks in a transaction from now on, until it is stopped.
func (c txConfig) watch(key Key) (stop func()) {
	w := &txWait{key: key, since: driver.Now(), logger: c.logger}
	first := time.AfterFunc(defaultWarnAfter, func() { w.look(defaultWarnAfter) })
	return func() {
		if !first.Stop() {
			w.end()
		}
	}
}

// look writes that w has waited for so long, if that is to be written. One that has begun when the wait ends may still
// write.
func (w *txWait) look(waited time.Duration) {
	txWriters.Lock()
	if w.over {
		txWriters.Unlock()
		return
	}
	w.next = time.AfterFunc(waited, func() { w.look(2 * waited) })
	writer := cmp.Or(txWriters.of[w.key.k.KeyID], w)
	txWriters.of[w.key.k.KeyID] = writer
	txWriters.Unlock()
	if writer == w {
		w.logger.Warn("waiting for a lock", "key", w.key, "use", "transaction", "waited", waited, "since", wallTime(w.since))
	}
}

func (w *txWait) end() {
	txWriters.Lock()
	defer txWriters.Unlock()
	w.over = true
	if w.next != nil {
		w.next.Stop()
	}
	if txWriters.of[w.key.k.KeyID] == w {
		delete(txWriters.of, w.key.k.KeyID)
	}
}
