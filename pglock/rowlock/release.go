package rowlock

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/pglock-toolkit/pglock/internal/timing"
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
	if !g.holder.release(g) {
		return g.holder.lostError()
	}
	defer g.holder.released(g)
	c := b.submit(&call{holder: g.holder, drops: []drop{g.drop()}})
	timeout := time.NewTimer(driver.ReleaseTimeout)
	defer timeout.Stop()
	err = driver.ErrUnavailable
	select {
	case <-c.done:
		err = c.err
	case <-timeout.C:
	}
	if err != nil {
		done := b.later(func() {
			<-c.done
			b.dropUntilGone(g.holder, c.left())
		})
		return &driver.UnsettledError{Err: fmt.Errorf("the release was not confirmed: %w", err), Done: done}
	}
	if strings.ContainsRune(c.outcomes, gone) && c.tries == 0 { // the first try, whose answer was lost, may have dropped it
		err = driver.Lost(driver.LostGone)
	}
	left := c.left()
	if left == nil {
		return err
	}
	done := b.later(func() { b.dropUntilGone(g.holder, left) })
	if g.guarded.Load() {
		return err
	}
	select { // another call looks at the row
	case <-done:
		return err
	case <-timeout.C:
		return &driver.UnsettledError{Err: fmt.Errorf("%w: another transaction has the row of the lock locked", driver.ErrUnavailable), Done: done}
	}
}

// left returns the drops of a call that has been answered which were not carried out: all of them after an error, or those
// whose rows were locked by other transactions.
func (c *call) left() (left []drop) {
	for i, d := range c.drops {
		if c.err != nil || c.outcomes[i] == busy {
			left = append(left, d)
		}
	}
	return left
}

// dropUntilGone drops things of h, again and again, until they are gone. The end of h frees them too.
func (b *backend) dropUntilGone(h *holder, drops []drop) {
	for pause := busyPause; len(drops) > 0 && !h.isOver(); pause = min(2*pause, maxDropPause) {
		c := b.submit(&call{holder: h, drops: drops})
		<-c.done
		drops = c.left()
		if len(drops) > 0 && !h.pause(timing.Jittered(pause)) {
			return
		}
	}
}

const maxDropPause = 500 * time.Millisecond
