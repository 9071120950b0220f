package rowlock

import (
	"fmt"
	"sync/atomic"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// grant is a set of keys that a holder holds.
type grant struct {
	keys       []driver.KeyID  // in order
	one        [1]driver.KeyID // most have one
	shared     bool
	listener   driver.LossHandler
	holder     *holder // set when it is granted, as is
	generation int64   // of all keys

	fenced  atomic.Bool // the generation was given away as a fencing token
	guarded atomic.Bool // it has guarded a transaction, which may still be open
}

func newGrant(r driver.Request) *grant {
	g := &grant{shared: r.Shared, listener: r.LossHandler}
	g.keys = g.one[:0]
	for _, key := range r.Keys {
		g.keys = append(g.keys, key.KeyID)
	}
	return g
}

// Deadline implements [driver.Grant].
func (g *grant) Deadline() driver.Instant { return g.holder.deadline() }

func (g *grant) spaces() []int16 {
	spaces := make([]int16, len(g.keys))
	for i, key := range g.keys {
		spaces[i] = int16(key.Space)
	}
	return spaces
}

func (g *grant) numbers() []int64 {
	numbers := make([]int64, len(g.keys))
	for i, key := range g.keys {
		numbers[i] = key.Number
	}
	return numbers
}

// drops returns what is to be dropped to release the grant.
func (g *grant) drops() []drop {
	kind := "x"
	if g.shared {
		kind = "s"
	}
	drops := make([]drop, len(g.keys))
	for i, key := range g.keys {
		drops[i] = drop{kind, key, g.generation}
	}
	return drops
}

// ours returns the grant behind held.
func ours(held driver.Grant) (*grant, error) {
	if g, ok := held.(*grant); ok {
		return g, nil
	}
	return nil, fmt.Errorf("a grant of type %T does not come from the backend of rows", held)
}
