package failover_test

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// history is what the workers were told.
type history struct {
	start time.Time

	mu     sync.Mutex
	eras   []*era
	holds  []hold
	tokens []token
	writes []*write
	runs   []run
	passes []pass
	counts map[string]int // what succeeded since the last promotion, by kind and by worker
	total  int
}

// era is a failover: the time in which two servers can be taken for the primary.
type era struct {
	mode       mode
	begin, end time.Duration // end is a lease after the last answer of the old primary
	promoted   time.Duration
	revived    time.Duration // when the old primary answered again, if it was silent
	old, new   int           // the ports of the servers; 0 if that is not known before
	switched   uint64        // where the WAL of the new one begins
	guarded    time.Duration // when a guarded transaction had its lock on the new one
}

// hold is a time in which a holder believed that it had a lock.
type hold struct {
	key      string
	from, to time.Duration
}

// token is a fencing token, of a holder that asked for its lock at from and had the token at to.
type token struct {
	key      string
	from, to time.Duration
	value    int64
}

// write is a transaction of a kind that was about a unit: a counter, a term, something that is done once.
type write struct {
	kind, unit, id string
	from, to       time.Duration
	port           int    // of the server
	position       uint64 // of the WAL after its commit, or 0 if that is not known
	confirmed      bool
}

// run is the beginning of a run of a job.
type run struct {
	due time.Time
	at  time.Duration
}

// pass is something that a rate limit has permitted at some time.
type pass struct{ from, to time.Duration }

func newHistory() *history { return &history{start: time.Now(), counts: map[string]int{}} }

func (h *history) now() time.Duration { return time.Since(h.start) }

// countLocked records a success of a kind of work.
func (h *history) countLocked(kind string, worker int) {
	h.total++
	h.counts[kind]++
	h.counts[fmt.Sprint(kind, worker)]++
}

func (h *history) add(kind string, worker int, record func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	record()
	h.countLocked(kind, worker)
}

// begins starts an era.
func (h *history) begins(m mode, old, next int) *era {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := &era{mode: m, begin: h.now(), old: old, new: next}
	h.eras = append(h.eras, e)
	return e
}

// reached records that a guarded transaction has its lock on a server.
func (h *history) reached(port int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.eras) == 0 {
		return
	}
	if e := h.eras[len(h.eras)-1]; e.guarded == 0 && (e.new == port || e.new == 0 && e.old != port) {
		e.guarded = h.now()
	}
}

// done returns how often a kind of work has succeeded since the last forget.
func (h *history) done(kind string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.counts[kind]
}

func (h *history) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.counts)
}

// during returns the last era that meets the time, or nil.
func (h *history) during(from, to time.Duration) *era {
	for _, e := range slices.Backward(h.eras) {
		if e.begin <= to && from <= e.end {
			return e
		}
	}
	return nil
}
