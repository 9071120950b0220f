package rowlock

import (
	"fmt"
	"sync/atomic"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// grant is a set of keys that a holder holds, or the first of which it holds while it waits for the next.
type grant struct {
	keys        []driver.KeyID // in order
	generations []int64        // of the first keys, those that the holder has
	one         struct {       // most have one
		keys        [1]driver.KeyID
		generations [1]int64
	}
	shared   bool
	listener driver.LossHandler
	holder   *holder // set when it is granted

	fenced  atomic.Bool // the generation was given away as a fencing token
	guarded atomic.Bool // it has guarded a transaction, which may still be open
}

func newGrant(r driver.Request) *grant {
	g := &grant{shared: r.Shared, listener: r.LossHandler}
	g.keys, g.generations = g.one.keys[:0], g.one.generations[:0]
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

// drops returns what is to be dropped to release what the holder has of the grant.
func (g *grant) drops() []drop {
	kind := "x"
	if g.shared {
		kind = "s"
	}
	drops := make([]drop, len(g.generations), len(g.generations)+1)
	for i, generation := range g.generations {
		drops[i] = drop{kind, g.keys[i], generation}
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
