package rowlock

import (
	"context"
	"time"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// place is what a waiting call knows of its place in the queue of a key. Only the first in line asks often; the others rest
// for most of the time that those before them are likely to take.
type place struct {
	ahead   int64          // how many are in the way, the holder included
	turn    time.Duration  // how long each of them is likely to take
	changed driver.Instant // when ahead has changed last
}

// seen notes an answer of the server. A turn lasts as long as a lock is held, and as it takes to find that it is free.
func (p *place) seen(t taken) {
	if t.ahead != p.ahead || p.changed == 0 {
		p.ahead, p.changed = t.ahead, driver.Now()
	}
	p.turn = t.held + 2*minLook
}

// rest returns how long the call rests before it asks again. If a lock is held for longer than usual, so are the pauses, by a
// share of that time: those behind must not sleep through turns that are short again.
func (p *place) rest() time.Duration {
	now := driver.Now()
	share, most := p.turn/firstShare, maxLook
	if p.ahead > 1 {
		share = p.turn * time.Duration(p.ahead-1) * restShare / 100
		most = maxLook * time.Duration(min(1+p.ahead/8, 4))
	}
	if rest := max(share, now.Sub(p.changed)/firstShare, minLook); rest < most {
		return rest
	}
	slow := driver.Instant(most)
	return ((now/slow + 1) * slow).Sub(now) // slow looks are at the same times for all
}

// With maxLook a process that waits for locks held for long sends a few statements a second, since those of all its waiters
// are sent together.
const (
	minLook    = 3 * time.Millisecond
	maxLook    = 580 * time.Millisecond
	firstShare = 4  // of a turn
	restShare  = 90 // percent of the turns before the first place
)

// rest rests until w should ask again.
func (b *backend) rest(ctx context.Context, w *want) error {
	timer := time.NewTimer(w.holder.rest(w))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-w.holder.ended: // the next holder of this process has no place in the queue yet
	case <-b.draining:
		return driver.ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}
