package redisfallback

import (
	"context"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// Holders implements [driver.Backend]. On several nodes it returns the holders that a quorum knows.
func (b *backend) Holders(ctx context.Context, key driver.Key) ([]driver.Holder, error) {
	names := namesOf(b.prefix, key)
	if err := names.check(); err != nil {
		return nil, err
	}
	calls := b.calls(listHolders, names.keys(listHolders.keys))
	t, err := b.roundUntil(ctx, calls, (*tally).over)
	if err != nil {
		return nil, err
	}
	if t.quorumImpossible() {
		return nil, t.unavailable()
	}
	known := map[string]int{}
	holders := []driver.Holder{}
	for i := range calls {
		if t.votes[i].err != nil {
			continue
		}
		shared, owners := calls[i].owners()
		for _, owner := range owners {
			if known[owner]++; known[owner] != b.quorum {
				continue
			}
			if shared {
				owner = tokenOf(owner)
			} else {
				owner = tokenIn(owner)
			}
			holders = append(holders, driver.Holder{Shared: shared, Token: owner})
		}
	}
	return holders, nil
}

// owners decodes the reply of listHolders.
func (c *call) owners() (shared bool, owners []string) {
	reply, ok := c.value.([]any)
	if !ok || len(reply) < 2 {
		return false, nil
	}
	all, _ := reply[1].([]any)
	for _, owner := range all {
		if text, ok := owner.(string); ok {
			owners = append(owners, text)
		}
	}
	return reply[0] == "shared", owners
}
