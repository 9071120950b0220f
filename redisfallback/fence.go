package redisfallback

import (
	"context"
	"fmt"
	"strconv"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// Fence implements [driver.Fencer] for one node. Each slot has a counter. Keys in several of them take the largest number, and
// raise the other counters to it.
func (b *backend) Fence(ctx context.Context, grants []driver.Grant) (int64, error) {
	if b.redlock() {
		return 0, fmt.Errorf("%w on Redlock, whose nodes have separate counters", driver.ErrUnsupported)
	}
	largest, err := b.largest(ctx, grants, 0)
	if err == nil && len(grants) > 1 {
		_, err = b.largest(ctx, grants, largest)
	}
	return largest, err
}

// largest advances the counters of the grants' slots to floor at least, and returns the largest.
func (b *backend) largest(ctx context.Context, grants []driver.Grant, floor int64) (largest int64, err error) {
	for _, held := range grants {
		g, err := ours(held)
		if err != nil {
			return 0, err
		}
		number, err := b.advance(ctx, g, floor)
		if err != nil {
			return 0, err
		}
		largest = max(largest, number)
	}
	return largest, nil
}

// advance advances the counter of the slot, if the grant holds its key there.
func (b *backend) advance(ctx context.Context, g *grant, floor int64) (int64, error) {
	owner := g.value()
	if g.shared {
		owner = g.holder()
	}
	calls := b.calls(nextFence, append(g.keys(2), g.fence()), owner, g.shared, floor)
	t, err := b.round(ctx, calls)
	if err == nil {
		err = t.result(errGone)
	}
	if err != nil {
		return 0, err
	}
	text, ok := calls[0].value.(string)
	if !ok {
		return 0, fmt.Errorf("the server returned the fencing token as %T, not as text", calls[0].value)
	}
	return strconv.ParseInt(text, 10, 64)
}
