package rowlock

import (
	"context"
	"sync"
	"time"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// waiters are the waiting calls of this process. One statement asks for all of them whether it is their turn. It only
// reads; a waiter whose turn it is asks for its lock.
//
// A lock that changes hands quickly is looked at quickly: the pause before the next look is a part of the time since the
// lock last changed hands, up to maxLook. Who has others ahead looks less often.
type waiters struct {
	backend *backend

	mu      sync.Mutex
	waiting map[*waiter]struct{}
	running bool
	earlier chan struct{} // holds a token when a waiter is due before the next look
}

type waiter struct {
	want *want
	wake chan struct{} // closed when the waiter is to ask, or has failed
	err  error
	due  driver.Instant
	look
}

// look is what a waiter has seen of its lock.
type look struct {
	since  driver.Instant // when it last changed hands
	latest int64          // its generation
	ahead  int64          // how many waiters are served before
}

// wait waits until w should ask for its lock again.
func (ws *waiters) wait(ctx context.Context, w *want) error {
	wt := &waiter{want: w, wake: make(chan struct{}), look: w.look}
	if wt.since == 0 {
		wt.since = driver.Now()
	}
	ws.enter(wt)
	defer ws.leave(wt)
	select {
	case <-wt.wake:
	case <-w.holder.ended: // the next holder of this process has no place in the queue yet
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-ws.backend.draining:
		return driver.ErrClosed
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w.look = wt.look
	return wt.err
}

func (ws *waiters) enter(wt *waiter) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.waiting == nil {
		ws.waiting, ws.earlier = map[*waiter]struct{}{}, make(chan struct{}, 1)
	}
	wt.planLocked(driver.Now())
	ws.waiting[wt] = struct{}{}
	if !ws.running {
		ws.running = ws.backend.background.start(ws.run)
		return
	}
	select {
	case ws.earlier <- struct{}{}:
	default:
	}
}

func (ws *waiters) leave(wt *waiter) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	delete(ws.waiting, wt)
}

// planLocked sets when the waiter is looked at next. Slow looks are at the same times for all.
func (wt *waiter) planLocked(now driver.Instant) {
	part, least := time.Duration(4), minLook
	if wt.ahead > 0 {
		part, least = 2, 3*minLook
	}
	interval := jittered(max(now.Sub(wt.since)/part, least))
	if interval < maxLook {
		wt.due = now.Add(interval)
	} else {
		wt.due = (now/driver.Instant(maxLook) + 1) * driver.Instant(maxLook)
	}
}

// With maxLook a process that waits for locks held for long sends less than two statements a second, of which its
// renewals and comparisons are a ninth.
const (
	minLook = 4 * time.Millisecond
	maxLook = 580 * time.Millisecond
)

// run looks while there are waiters.
func (ws *waiters) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	failures := 0
	for {
		select {
		case <-timer.C:
		case <-ws.earlier:
		case <-ws.backend.life.Done():
			return
		}
		due := ws.due()
		if len(due) > 0 {
			failures = ws.ask(due, failures)
		}
		next, more := ws.next()
		if !more {
			return
		}
		timer.Reset(next)
	}
}

// due returns the waiters that are due, and those that will be soon, if any is due.
func (ws *waiters) due() (due []*waiter) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	now, isDue := driver.Now(), false
	for wt := range ws.waiting {
		isDue = isDue || wt.due <= now
		if wt.due <= now.Add(now.Sub(wt.since)/16) {
			due = append(due, wt)
		}
	}
	if !isDue {
		return nil
	}
	return due
}

// next returns the time until the next waiter is due; more is false if there is none.
func (ws *waiters) next() (next time.Duration, more bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	now := driver.Now()
	next = maxLook
	for wt := range ws.waiting {
		next = min(next, wt.due.Sub(now))
	}
	ws.running = len(ws.waiting) > 0
	return max(next, time.Millisecond), ws.running
}

// ask asks the server, and wakes those whose turn it is. When it has failed twice in a row all waiters fail: a server
// that cannot be reached is not waited for.
func (ws *waiters) ask(due []*waiter, failures int) int {
	b := ws.backend
	h := due[0].want.holder
	p := lockdb.PollLeasesParams{Holder: h.id}
	for i, wt := range due {
		if wt.want.holder != h { // it notices by itself that its holder is over
			continue
		}
		for _, key := range wt.want.grant.keys {
			p.Tickets = append(p.Tickets, int32(i))
			p.Spaces = append(p.Spaces, int16(key.Space))
			p.Numbers = append(p.Numbers, key.Number)
			p.Shared = append(p.Shared, wt.want.grant.shared)
			p.Arrivals = append(p.Arrivals, wt.want.arrival)
		}
	}
	var rows []lockdb.PollLeasesRow
	ctx, cancel := context.WithTimeout(b.life, b.callWithin())
	defer cancel()
	err := b.calls.do(ctx, func(ctx context.Context, q *lockdb.Queries) (err error) {
		rows, err = q.PollLeases(ctx, p)
		return err
	})
	ws.mu.Lock()
	defer ws.mu.Unlock()
	now := driver.Now()
	if err != nil {
		failures++
		for wt := range ws.waiting {
			wt.planLocked(now)
			if failures > 1 {
				ws.wakeLocked(wt, err)
			}
		}
		return failures
	}
	for _, r := range rows {
		wt := due[r.Ticket]
		if _, waits := ws.waiting[wt]; !waits {
			continue
		}
		if wt.latest != r.Latest {
			if wt.latest != 0 {
				wt.since = now
			}
			wt.latest = r.Latest
		}
		wt.ahead = r.Ahead
		wt.planLocked(now)
		if !r.Queued { // the server has forgotten it
			wt.want.arrival = 0
		}
		if r.Ready || !r.Queued {
			ws.wakeLocked(wt, nil)
		}
	}
	return 0
}

func (ws *waiters) wakeLocked(wt *waiter, err error) {
	delete(ws.waiting, wt)
	wt.err = err
	close(wt.wake)
}
