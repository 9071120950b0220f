package rowlock

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/link"
)

// holder is this process's row in pglock.holders. When it is over, all locks that it held are lost; the next call makes
// a new one.
//
// It is over when the server says so, or when its last renewal that was answered is so old that the server may have let
// the lease run out. The server counts from when it got the renewal, and the client from before it sent it.
type holder struct {
	backend *backend
	id      pgtype.UUID
	until   atomic.Int64  // a driver.Instant: the end of the lease as the client counts it
	ended   chan struct{} // closed when it is over
	told    chan struct{} // closed when the server has been told so, or could not be

	mu        sync.Mutex
	over      driver.LostReason  // why it is over; empty while it lives
	attempt   int64              // of the last call
	inFlight  map[int64]struct{} // attempts whose answers are outstanding
	grants    map[*grant]struct{}
	releasing map[*grant]struct{} // whose releases were not answered yet
	waiting   map[*want]struct{}  // those in a queue of the server
}

// open adds a row for this process, which must be found over the connection for renewals, too. An error proves nothing.
func (b *backend) open(ctx context.Context) (*holder, error) {
	h := &holder{
		backend: b, ended: make(chan struct{}), told: make(chan struct{}),
		inFlight: map[int64]struct{}{}, grants: map[*grant]struct{}{}, releasing: map[*grant]struct{}{}, waiting: map[*want]struct{}{},
	}
	host, _ := os.Hostname()
	var sent driver.Instant
	server, err := link.Ask(ctx, b.calls, func(ctx context.Context, q *lockdb.Queries) (string, error) {
		h.id.Valid, sent = true, driver.Now()
		_, _ = rand.Read(h.id.Bytes[:]) // it never fails; a row that was added by an earlier try is never used
		return q.OpenHolder(ctx, lockdb.OpenHolderParams{
			Holder: h.id, LeaseMs: b.env.Lease.Milliseconds(), Application: storable(b.application), Host: storable(host),
			Pid: int32(os.Getpid()),
		})
	})
	if err != nil {
		return nil, err
	}
	b.server.Store(serverName(server))
	h.extend(sent)
	if found, err := h.renew(ctx, b.callWithin()/2); err == nil && !found && !h.isOver() {
		return nil, fmt.Errorf("%w: new connections lead to different servers in turn (connect to one of them)", driver.ErrPooler)
	}
	b.background.start(h.keep)
	b.background.start(h.tidy)
	return h, nil
}

// serverName tells the server and the database that a holder was opened in apart from others; empty is unknown.
type serverName string

// Place implements [hooks.Placed]. The rows outlive the server process: two Lockers whose holders were opened before and after
// a restart do not know that they are in one place.
func (b *backend) Place(driver.Grant) any {
	if name, known := b.server.Load().(serverName); known && name != "" {
		return name
	}
	return nil
}

// storable returns text as the server can store it: some byte sequences are no text there.
func storable(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "?"), "\x00", "?")
}

// extend extends the lease after an answer to what was sent at the instant. It leaves a tenth for clocks that differ.
func (h *holder) extend(sent driver.Instant) {
	h.until.Store(int64(sent.Add(h.backend.env.Lease - h.backend.env.Lease/10)))
}

func (h *holder) deadline() driver.Instant { return driver.Instant(h.until.Load()) }

// isOver reports whether the holder is over. A deadline that has passed ends it, whatever keep does meanwhile.
func (h *holder) isOver() bool {
	if driver.Now() >= h.deadline() {
		h.lose(driver.LostLease, errLate)
	}
	select {
	case <-h.ended:
		return true
	default:
		return false
	}
}

// keep renews the lease until the holder is over.
func (h *holder) keep() {
	lease := h.backend.env.Lease
	for next := lease / renewalsPerLease; h.pause(next) && !h.isOver(); {
		sent := driver.Now()
		renewed, err := h.renew(h.backend.life, min(h.deadline().Sub(sent), lease/4))
		switch {
		case err == nil && !renewed:
			h.lose(driver.LostGone, errOver)
		case err == nil:
			h.extend(sent)
			next = max(lease/renewalsPerLease-driver.Now().Sub(sent), 0)
		default:
			h.backend.env.Logger.Debug("a lease was not renewed", "error", err)
			next = min(lease/20, max(h.deadline().Sub(driver.Now()), 0))
		}
	}
}

func (h *holder) renew(ctx context.Context, within time.Duration) (renewed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return link.Ask(ctx, h.backend.renewals, func(ctx context.Context, q *lockdb.Queries) (bool, error) {
		return q.RenewHolder(ctx, lockdb.RenewHolderParams{Holder: h.id, LeaseMs: h.backend.env.Lease.Milliseconds()})
	})
}

// pause returns false if the holder is over, or the backend is closed, before d has passed.
func (h *holder) pause(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-h.ended:
	case <-h.backend.life.Done():
	}
	return false
}

// lose ends the holder, and with it all its grants, unless it is over already.
func (h *holder) lose(why driver.LostReason, err error) {
	h.mu.Lock()
	if h.over != "" {
		h.mu.Unlock()
		return
	}
	h.over = why
	lost := h.grants
	h.grants = nil
	close(h.ended)
	h.mu.Unlock()
	for g := range lost {
		g.listener.Lost(why, err)
	}
	if !h.backend.background.start(h.end) {
		close(h.told)
	}
}

// lostError is the error of a lock that is lost: with the holder, or since the server has forgotten it.
func (h *holder) lostError() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return driver.Lost(cmp.Or(h.over, driver.LostGone))
}

// end tells the server that the holder is over, so that its locks need not wait for the end of the lease there.
func (h *holder) end() {
	defer close(h.told)
	_ = h.backend.calls.Do(h.backend.life, func(ctx context.Context, q *lockdb.Queries) error { return q.EndHolder(ctx, h.id) })
}

// nextAttempt numbers a call.
func (h *holder) nextAttempt() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.attempt++
	h.inFlight[h.attempt] = struct{}{}
	return h.attempt
}

// answered notes that nothing unknown is left of an attempt.
func (h *holder) answered(attempt int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.inFlight, attempt)
}

// add records grants. It returns false if the holder is over.
func (h *holder) add(grants []*grant) bool {
	if h.isOver() {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over != "" {
		return false
	}
	for _, g := range grants {
		h.grants[g] = struct{}{}
	}
	return true
}

// release forgets a grant. It returns false if it was lost before. What is still to be dropped of it is no unknown row until
// released is called: if tidy dropped it first, the release would find it gone and report a loss.
func (h *holder) release(g *grant) bool {
	if h.isOver() {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	_, held := h.grants[g]
	if held {
		delete(h.grants, g)
		h.releasing[g] = struct{}{}
	}
	return held
}

func (h *holder) released(g *grant) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.releasing, g)
}

// took notes the answer to w: the generation, or the place where w waits now.
func (h *holder) took(w *want, t taken) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case t.letter == granted:
		w.grant.holder, w.grant.generation, w.arrival = h, t.value, 0
		delete(h.waiting, w)
	case w.wait:
		w.arrival = t.value
		w.place.seen(t)
		h.waiting[w] = struct{}{}
	}
}

// rest returns how long w rests before it asks again.
func (h *holder) rest(w *want) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return w.place.rest()
}

// forget notes that w waits no more and that its grant is not used, and returns what is to be dropped for that.
func (h *holder) forget(w *want) (drops []drop) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.waiting, w)
	delete(h.grants, w.grant)
	if w.grant.holder == h {
		drops = append(drops, w.grant.drop())
	}
	if w.arrival != 0 {
		drops = append(drops, w.turn())
	}
	return drops
}

const renewalsPerLease = 3

var (
	errLate = errors.New("the server did not answer in time")
	errOver = errors.New("the server has ended the lease of this process, or has forgotten it")
)
