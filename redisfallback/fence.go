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
	var draws []draw
	for _, held := range grants {
		g, err := ours(held)
		if err != nil {
			return 0, err
		}
		counters, keys := map[string]bool{}, g.holdings()
		for i := range keys {
			if counter := keys[i].fence(); !counters[counter] {
				counters[counter] = true
				draws = append(draws, draw{g, &keys[i], counter})
			}
		}
	}
	largest, err := b.largest(ctx, draws, 0)
	if err == nil && len(draws) > 1 {
		_, err = b.largest(ctx, draws, largest)
	}
	return largest, err
}

// draw advances the counter of a slot, while the grant holds a key there.
type draw struct {
	grant   *grant
	key     *holding
	counter string
}

// largest advances the counters to floor at least, and returns the largest.
func (b *backend) largest(ctx context.Context, draws []draw, floor int64) (largest int64, err error) {
	for _, d := range draws {
		number, err := b.advance(ctx, d, floor)
		if err != nil {
			return 0, err
		}
		largest = max(largest, number)
	}
	return largest, nil
}

func (b *backend) advance(ctx context.Context, d draw, floor int64) (int64, error) {
	g := d.grant
	owner := g.value(0)
	if g.shared {
		owner = g.holder(0)
	}
	calls := b.calls(nextFence, append(d.key.keys(2), d.counter), owner, g.shared, floor)
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
