package redisfallback

import (
	"context"
	"fmt"
	"strconv"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// Fence implements [driver.Fencer] for one node. Each slot has a counter. A grant with keys in several of them takes
// the largest number, and raises the other counters to it.
func (b *backend) Fence(ctx context.Context, held driver.Grant) (int64, error) {
	g, err := ours(held)
	if err != nil {
		return 0, err
	}
	if b.redlock() {
		return 0, fmt.Errorf("%w on Redlock, whose nodes have separate counters", driver.ErrUnsupported)
	}
	counters := map[string]*holding{}
	keys := g.holdings()
	for i := range keys {
		counters[keys[i].fence()] = &keys[i]
	}
	largest, err := b.count(ctx, g, counters, 0)
	if err == nil && len(counters) > 1 {
		_, err = b.count(ctx, g, counters, largest)
	}
	return largest, err
}

// count advances the counters to floor at least, and returns the largest.
func (b *backend) count(
	ctx context.Context, g *grant, counters map[string]*holding, floor int64,
) (largest int64, err error) {
	for counter, h := range counters {
		number, err := b.advance(ctx, g, h, counter, floor)
		if err != nil {
			return 0, err
		}
		largest = max(largest, number)
	}
	return largest, nil
}

func (b *backend) advance(ctx context.Context, g *grant, h *holding, counter string, floor int64) (int64, error) {
	owner := g.value(0)
	if g.shared {
		owner = g.holder(0)
	}
	calls := b.calls(nextFence, append(h.keys(2), counter), owner, g.shared, floor)
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
