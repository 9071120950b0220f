package redisfallback

import (
	"context"
	"time"

	"github.com/pglock-toolkit/pglock/internal/timing"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// Clients of other libraries publish nothing, and may take the lock again at once. While one of them holds it, the first in
// line looks: it tries to take the lock, with SET NX, as often as such clients do, mostly every 50 to 250 ms, and less often if
// the holder has not changed for some time. When it sees that the lock changes hands it learns their rhythm, and looks in
// short bursts when the holder is expected to change.
const (
	minLook  = 75 * time.Millisecond
	maxLook  = time.Second
	looksPer = 8                    // so many looks narrow down when the holder changes
	slack    = 4 * time.Millisecond // a holder may be so late
)

// rhythm is what is known of the clients that take a lock in turn. Each sets the time to live once, when it takes the lock:
// if the time of expiry moves, the lock has changed hands.
type rhythm struct {
	lock             string
	since            driver.Instant // when the present holder was first seen
	seen             driver.Instant // when it was last seen
	expiry           driver.Instant
	hold             time.Duration // of the holder before; 0 if unknown
	minLife, maxLife time.Duration // between these is the time to live that they set
}

// observe notes that at an instant the lock lives for ttl. A lock that lives for ever has no rhythm.
func (r *rhythm) observe(now driver.Instant, ttl time.Duration) {
	if r.since == 0 {
		r.since = now
	}
	if ttl <= 0 {
		return
	}
	expiry := now.Add(ttl)
	moved := expiry.Sub(r.expiry)
	if r.expiry != 0 && (moved > slack || moved < -slack) {
		shortest, longest := ttl, expiry.Sub(r.seen)
		if r.hold > 0 && ttl <= r.maxLife && longest >= r.minLife { // else they do not all set the same
			shortest, longest = max(r.minLife, ttl), min(r.maxLife, longest)
		}
		r.since, r.hold, r.minLife, r.maxLife = now, max(moved, 0), shortest, longest
	}
	r.seen, r.expiry = now, expiry
}

// next returns how long to wait before the next look.
func (r *rhythm) next(now driver.Instant) time.Duration {
	often := timing.Jittered(max(minLook, min(now.Sub(r.since)/4, maxLook)))
	if r.hold == 0 {
		return often
	}
	begin, end := r.expiry.Add(r.hold-r.maxLife), r.expiry.Add(r.hold-r.minLife+slack)
	switch {
	case now < begin:
		return min(begin.Sub(now), often)
	case now < end:
		return (r.maxLife - r.minLife - slack/2) / looksPer
	}
	return often
}

// looks are the looks of one waiter in one pause.
type looks struct {
	backend *backend
	call    func() []call
	rhythm  *rhythm
	timer   *time.Timer
}

// looks returns the looks of a waiter after a refusal; nil if it is not to look. On Redlock it asks instead.
func (b *backend) looks(g *grant, r *rhythm, after refusal) *looks {
	if b.redlock() || !after.foreign || after.ahead > 0 {
		return nil
	}
	r.observe(driver.Now(), after.busy)
	ask := func() []call { return b.callsAbout(g, look, g.value(), b.leaseMillis) }
	if g.shared { // a lock that is taken alone is not its own
		ask = func() []call { return b.takeCalls(g, lineFor, true) }
	}
	return &looks{backend: b, call: ask, rhythm: r, timer: time.NewTimer(time.Hour)}
}

// next returns a channel that receives when it is time for the next look. Many waiters look less often.
func (l *looks) next() <-chan time.Time {
	if l == nil {
		return nil
	}
	least := time.Duration(0)
	if n := l.backend.waiters.count(); n > 1 {
		least = time.Duration(n) * time.Second / (2 * perSecond)
	}
	l.timer.Reset(max(l.rhythm.next(driver.Now()), least))
	return l.timer.C
}

// look tries to take the lock. If that succeeds the waiter asks again, to leave the line.
func (l *looks) look(ctx context.Context) (taken bool) {
	calls := l.call()
	t, err := l.backend.round(ctx, calls)
	if err != nil || t.failed > 0 {
		return err == nil
	}
	if r, ok := calls[0].refusal(); ok {
		l.rhythm.observe(driver.Now(), r.busy)
	}
	return t.hasQuorum()
}

// stop ends the looks.
func (l *looks) stop() {
	if l != nil {
		l.timer.Stop()
	}
}
