package rowlock

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// Release implements [driver.Backend]. A row that a guarded transaction has locked is left to the background: the
// caller may be the one who has that transaction open, and commits it later. The lock is over for this process at once, and for
// others when that transaction has ended.
func (b *backend) Release(_ context.Context, held driver.Grant) error {
	g, err := ours(held)
	if err != nil {
		return err
	}
	defer g.holder.released(g)
	if !g.holder.release(g) {
		return g.holder.lostError()
	}
	c := b.submit(&call{holder: g.holder, drops: g.drops()})
	timeout := timers.Get().(*time.Timer)
	timeout.Reset(driver.ReleaseTimeout)
	defer func() { timeout.Stop(); timers.Put(timeout) }()
	select {
	case <-c.done:
	case <-timeout.C:
		return b.releaseLater(g, c)
	}
	if c.err != nil {
		return b.releaseLater(g, c)
	}
	if c.wasGone() && c.tries == 0 { // the first try, whose answer was lost, may have dropped it
		err = driver.Lost(driver.LostGone)
	}
	left := c.stillBusy()
	if left == nil {
		return err
	}
	done := make(chan struct{})
	if !b.background.start(func() { defer close(done); b.dropUntilGone(g.holder, left) }) || g.guarded.Load() {
		return err
	}
	select { // another call looks at the row
	case <-done:
		return err
	case <-timeout.C:
		return &driver.UnsettledError{Err: fmt.Errorf("%w: another transaction has the row of the lock locked", driver.ErrUnavailable), Done: done}
	}
}

// timers are reused, since each release needs one.
var timers = sync.Pool{New: func() any { return time.NewTimer(driver.ReleaseTimeout) }}

// releaseLater goes on with a release that was not confirmed.
func (b *backend) releaseLater(g *grant, c *call) error {
	done := make(chan struct{})
	goOn := func() {
		defer close(done)
		<-c.done
		if c.err != nil {
			b.dropUntilGone(g.holder, c.drops)
		} else {
			b.dropUntilGone(g.holder, c.stillBusy())
		}
	}
	if !b.background.start(goOn) {
		close(done)
	}
	err := c.errOr(driver.ErrUnavailable)
	return &driver.UnsettledError{Err: fmt.Errorf("the release was not confirmed: %w", err), Done: done}
}

// errOr returns the error of a call that has been answered, or else the given one.
func (c *call) errOr(err error) error {
	select {
	case <-c.done:
		return c.err
	default:
		return err
	}
}

// dropUntilGone drops things of h, again and again, until they are gone. The end of h frees them too.
func (b *backend) dropUntilGone(h *holder, drops []drop) {
	for pause := busyPause; len(drops) > 0 && !h.isOver(); pause = min(2*pause, maxDropPause) {
		c := b.submit(&call{holder: h, drops: drops})
		<-c.done
		if c.err == nil {
			drops = c.stillBusy()
		}
		if len(drops) > 0 && !h.pause(jittered(pause)) {
			return
		}
	}
}

const maxDropPause = 500 * time.Millisecond
