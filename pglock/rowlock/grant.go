package rowlock

import (
	"fmt"
	"sync/atomic"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// grant is a key that a holder holds.
type grant struct {
	key        driver.KeyID
	shared     bool
	listener   driver.LossHandler
	holder     *holder // set when it is granted, as is
	generation int64

	fenced  atomic.Bool // the generation was given away as a fencing token
	guarded atomic.Bool // it has guarded a transaction, which may still be open
}

func newGrant(r driver.Request) *grant {
	return &grant{key: r.Key.KeyID, shared: r.Shared, listener: r.LossHandler}
}

// Deadline implements [driver.Grant].
func (g *grant) Deadline() driver.Instant { return g.holder.deadline() }

// drop returns what is to be dropped to release the grant.
func (g *grant) drop() drop {
	if g.shared {
		return drop{"s", g.key, g.generation}
	}
	return drop{"x", g.key, g.generation}
}

// ours returns the grant behind held.
func ours(held driver.Grant) (*grant, error) {
	if g, ok := held.(*grant); ok {
		return g, nil
	}
	return nil, fmt.Errorf("a grant of type %T does not come from the backend of rows", held)
}
