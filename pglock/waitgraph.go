package pglock

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pglock-toolkit/pglock/internal/hooks"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/between"
)

// This file finds deadlocks among the calls of this process, of all its Lockers. A call that waits under the context of
// a Lock keeps that Lock, and so does whatever waits for it: the Lock is stuck. A cycle is complete when its last call
// begins to wait, so each call looks once, at that moment, and the one that finds itself in a cycle fails.
//
// What a call waits for, it needs whatever its place in a queue is, so every stuck Lock of one of its keys is in its way until
// that Lock ends.
//
// Who wins the races:
//   - Two calls that complete a cycle at the same moment: the mu of the graph orders them. A call is in its Locker's queue before
//     it looks, and the first to look does not find the second, so the second one fails. A call that has failed is
//     forgotten before the mu is free, so no other call finds it in the same cycle.
//   - A Lock that ends during the look (another goroutine unlocks, a loss, MaxHold): the look checks all its Locks
//     again at the end. No Lock is held again after its end, and no call leaves the graph without the mu. So if all of them
//     are still held, all were held together when the second check began, and no call of the cycle can have been granted by
//     then. A Lock that ends after that is too late: the call fails, as if the other had come a moment later.
//   - A grant and the failure: the caller of begin decides, as for the end of a context.

// waits are the calls of this process that wait and hold something.
var waits = newWaitGraph()

func newWaitGraph() *waitGraph { return &waitGraph{waits: map[*wait]bool{}} }

type waitGraph struct {
	mu    sync.Mutex
	waits map[*wait]bool // all true
}

// wait is a call that waits.
type wait struct {
	locker *Locker // nil for a transaction's lock
	keys   []driver.Key
	asked  []driver.Key // what its caller has asked for
	shared bool
	some   int        // it waits for so many of the keys; 0 is all
	name   *Key       // what its caller calls the keys; nil is the one that is in its way
	held   []*Lock    // whose contexts it waits under
	req    *request   // which waits in the queue of its Locker; nil is for the server
	queue  *entry     // that queue
	txs    []placedTx // the transactions whose work it is
	place  any        // of a transaction that waits itself
	since  time.Time
	giveUp context.CancelCauseFunc // ends the wait

	// Of the lookout (between.go), if there is one:
	watcher       *lookout
	number, began int64 // as it is published; 0 is not yet
	shown         int64 // the look in which it was last published; 0: none; below 0: so many looks more it comes first
	inCycle       int64 // when the youngest wait of its cycles began
	suspicion     suspicion
	gaveUp        bool
}

// begin notes that w waits, and returns an error if that completes a cycle; then w does not count any more.
func (g *waitGraph) begin(w *wait) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	w.since = time.Now()
	g.waits[w] = true
	if cycle := g.cycleLocked(w); cycle != nil {
		delete(g.waits, w)
		return deadlock(w, cycle)
	}
	w.lookout().watchLocked(w)
	return nil
}

// end notes that w does not wait any more.
func (g *waitGraph) end(w *wait) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.waits, w)
}

// cycleLocked returns the cycle that w is in, or nil.
func (g *waitGraph) cycleLocked(w *wait) []step {
	for {
		var seen []*Lock // that the search relies on
		needs := func(w *wait) ([][]step, int) { return g.needsLocked(w, &seen), w.some }
		cycle := between.Search(w, needs, func(s step) *wait { return s.to })
		if cycle == nil || !slices.ContainsFunc(seen, (*Lock).ended) {
			return cycle
		}
	}
}

// step is from a call that waits for a key to one that keeps it, as a holder or as the writer ahead of it in line.
type step struct {
	from *wait
	key  driver.Key // as the holder names it
	lock *Lock
	to   *wait
}

// needsLocked returns the calls that keep w's keys from it, for each key, and adds the Locks that they wait under to
// seen.
func (g *waitGraph) needsLocked(w *wait, seen *[]*Lock) [][]step {
	keepers, writer, wanted := make([][]step, len(w.keys)), w.behindWriter(), map[driver.KeyID]int{}
	for i, key := range w.keys {
		wanted[key.KeyID] = i
	}
	for next := range g.waits {
		for _, lock := range next.held {
			if w.shared && lock.hold.shared && !writer {
				continue
			}
			for _, key := range lock.keys() {
				if i, wants := wanted[key.KeyID]; wants && lock.keeps(w, key, w.keys[i]) && !lock.ended() {
					*seen = append(*seen, lock)
					keepers[i] = append(keepers[i], step{w, key, lock, next})
				}
			}
		}
	}
	return keepers
}

// ended reports whether l has ended since a call began to wait under it.
func (l *Lock) ended() bool { return l.Err() != nil }

// keeps reports whether l's key is the one that w waits for: the same lock on the same server.
func (l *Lock) keeps(w *wait, own, wanted driver.Key) bool {
	locker := l.hold.locker
	switch {
	case w.locker == nil:
		return l.place() == w.place
	case locker.byName != w.locker.byName || locker.byName && own.Compare(wanted) != 0:
		return false
	case locker == w.locker:
		return true
	}
	ours, ok := w.locker.backend.(hooks.Placed)
	if !ok {
		return false
	}
	place := ours.Place(nil)
	return place != nil && place == l.place()
}

// place returns what identifies the server that holds the Lock, with which Locks of other Lockers compare theirs; nil
// is unknown.
func (l *Lock) place() any {
	if backend, ok := l.hold.locker.backend.(hooks.Placed); ok {
		return backend.Place(l.hold.grant)
	}
	return nil
}

// behindWriter reports whether w, which is shared, waits in its Locker's queue behind an exclusive request, or one that
// asks the backend. Only the end of the queue grows, so if one is there now, it was there before w.
func (w *wait) behindWriter() bool {
	if w.req == nil || !w.shared {
		return false
	}
	w.locker.lock(w.req.groups)
	defer w.locker.unlock(w.req.groups)
	place := slices.Index(w.queue.queue, w.req) // -1 when the wait is over
	return place >= 0 && (w.queue.writer || slices.ContainsFunc(w.queue.queue[:place], func(r *request) bool { return !r.config.shared }))
}

// beginWait notes that r waits for its key, in the queue or for the server, with the context that it returns. The
// wait is nil if no other call can have to wait for this one.
func (l *Locker) beginWait(ctx context.Context, r *request, queued bool) (context.Context, *wait, error) {
	held, txs := lineage(ctx)
	if len(held)+len(txs) == 0 {
		return ctx, nil, nil
	}
	w := &wait{locker: l, keys: r.keys, asked: r.keys, shared: r.config.shared, held: held, txs: txs}
	if r.of != nil {
		w.asked = r.of.keys
	}
	if queued {
		w.req, w.queue = r, r.entry
	}
	ctx, err := w.begin(ctx)
	if err != nil {
		return ctx, nil, err
	}
	return ctx, w, nil
}

// begin notes that w, of a Locker, waits with the context that it returns, unless that completes a cycle.
func (w *wait) begin(ctx context.Context) (context.Context, error) {
	ctx, w.giveUp = context.WithCancelCause(ctx)
	err := w.locker.graph.begin(w)
	if err != nil {
		w.giveUp(nil)
	}
	return ctx, err
}

// endWait ends what beginWait has begun.
func endWait(w *wait) {
	if w != nil {
		w.locker.graph.end(w)
		w.giveUp(nil)
	}
}

// awaitSome is [hooks.Await].
func (l *Locker) awaitSome(ctx context.Context, name Key, keys []Key, some int) (context.Context, func(), error) {
	held, txs := lineage(ctx)
	if len(held)+len(txs) == 0 {
		return ctx, func() {}, nil
	}
	w := &wait{locker: l, keys: driverKeys(keys), some: some, name: &name, held: held, txs: txs}
	ctx, err := w.begin(ctx)
	if err != nil {
		return ctx, nil, err
	}
	return ctx, func() { endWait(w) }, nil
}
