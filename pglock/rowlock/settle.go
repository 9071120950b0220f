package rowlock

import (
	"context"
	"fmt"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/internal/timing"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// settle handles a statement whose answer was lost. It may have been committed, it may be running, and it may still be
// on its way, such as in a pooler that waits for a server connection. What it took is given back, and from then on the
// server refuses it; then its calls are sent once more. While that cannot be done their keys are unsettled.
func (b *backend) settle(s *statement, err error) {
	if b.trySettle(s) == nil {
		s.holder.answered(s.params.Attempt)
		b.again(s.batch, err)
		return
	}
	done := b.later(func() {
		for s.holder.pause(timing.Jittered(busyPause * 50)) {
			if b.trySettle(s) == nil {
				break
			}
		}
		s.holder.answered(s.params.Attempt)
	})
	finishAll(s.batch, &driver.UnsettledError{Err: fmt.Errorf("%w: %w", driver.ErrUnavailable, err), Done: done})
}

// trySettle returns nil if nothing is left of the statement. Once the holder is over, nothing that it took counts.
func (b *backend) trySettle(s *statement) error {
	if s.holder.isOver() {
		return nil
	}
	ctx, cancel := context.WithTimeout(b.life, b.callWithin())
	defer cancel()
	params := lockdb.SettleLeasesParams{Holder: s.holder.id, Attempt: s.params.Attempt, Spaces: []int16{}, Numbers: []int64{}}
	for _, c := range s.wants {
		key := c.want.grant.key
		params.Spaces, params.Numbers = append(params.Spaces, int16(key.Space)), append(params.Numbers, key.Number)
	}
	return b.calls.Do(ctx, func(ctx context.Context, q *lockdb.Queries) error { return q.SettleLeases(ctx, params) })
}
