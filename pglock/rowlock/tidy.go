package rowlock

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/internal/timing"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/link"
)

// tidy compares what the server has of the holder with what this process knows, once a renewal period, and drops what
// it does not know: after a failover the server may have forgotten a drop. A lock that the server has forgotten is
// lost. A process that holds nothing, and so can lose nothing, compares once per two leases. The statement reads all locks, so
// where it takes long it is sent less often. Now and then tidy also has the server forget what has not been used for
// long, and again soon if there was more. Of processes that end soon, such as runs of a command, one in pruneShare does it too.
func (h *holder) tidy() {
	pruned, more := driver.Now().Add(-timing.Jittered(pruneEvery)), false
	if h.id.Bytes[0]%pruneShare == 0 {
		more = h.prune()
	}
	for next := h.backend.env.Lease / renewalsPerLease; h.pause(timing.Jittered(next)); {
		began := driver.Now()
		h.compare()
		if more || began.Sub(pruned) > pruneEvery {
			pruned, more = began, h.prune()
		}
		next = h.backend.env.Lease / renewalsPerLease
		if len(h.known()) == 0 {
			next = 2 * h.backend.env.Lease
		}
		next = max(next, tidyShare*(driver.Now().Sub(began)-tidyShort))
	}
}

const (
	tidyShort  = 100 * time.Millisecond // does not count: the network may take it
	tidyShare  = 500                    // of the rest
	pruneEvery = 10 * time.Minute
	pruneAfter = time.Hour
	pruneMost  = 1000
	pruneShare = 16
)

// compare does one comparison. What calls have changed since it was sent is left alone: a row of a later attempt, or of
// one whose answer was outstanding, and a grant that was made or released since.
func (h *holder) compare() {
	h.mu.Lock()
	last, inFlight, before := h.attempt, maps.Clone(h.inFlight), maps.Clone(h.grants)
	h.mu.Unlock()
	rows, err := link.Ask(h.backend.life, h.backend.calls, func(ctx context.Context, q *lockdb.Queries) ([]lockdb.LeaseRowsRow, error) {
		return q.LeaseRows(ctx, h.id)
	})
	if err != nil {
		return
	}
	found := map[drop]bool{}
	var unknown []drop
	known := h.known()
	for _, r := range rows {
		d := drop{r.Kind, driver.KeyID{Space: driver.Space(r.Space), Number: r.Number}, r.Value}
		found[d] = true
		if _, open := inFlight[r.Attempt]; !open && r.Attempt <= last && !known[d] {
			unknown = append(unknown, d)
		}
	}
	for g := range before {
		if !found[g.drop()] && h.release(g) {
			g.listener.Lost(driver.LostGone, errForgotten)
			h.released(g)
		}
	}
	if len(unknown) > 0 {
		h.backend.env.Logger.Debug("locks in rows that this process does not know are dropped", "rows", len(unknown))
		h.backend.submit(&call{holder: h, drops: unknown})
	}
}

// known is what this process holds or waits for, or is about to release.
func (h *holder) known() map[drop]bool {
	known := map[drop]bool{}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, grants := range []map[*grant]struct{}{h.grants, h.releasing} {
		for g := range grants {
			known[g.drop()] = true
		}
	}
	for w := range h.waiting {
		known[w.turn()] = true
	}
	return known
}

// prune has the server forget some of what has not been used for long, and reports whether there may be more.
func (h *holder) prune() (more bool) {
	pruned, err := link.Ask(h.backend.life, h.backend.calls, func(ctx context.Context, q *lockdb.Queries) (int64, error) {
		return q.PruneLeases(ctx, lockdb.PruneLeasesParams{KeepMs: pruneAfter.Milliseconds(), Most: pruneMost})
	})
	return err == nil && pruned >= pruneMost
}

var errForgotten = errors.New("the server has forgotten the lock, as after a failover that loses transactions")
