package mux

import (
	"fmt"
	"sync/atomic"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// Budget bounds the keys that one backend holds or asks for, on all of its sessions.
type Budget struct {
	used, limit atomic.Int64 // 0: no limit, or none yet
}

// Limit sets the bound, if there is none yet.
func (b *Budget) Limit(keys int) { b.limit.CompareAndSwap(0, int64(keys)) }

// reserve counts the key of a grant that is going to be asked for.
func (b *Budget) reserve(g *Grant) error {
	used, limit := b.used.Add(1), b.limit.Load()
	if limit > 0 && used > limit {
		b.used.Add(-1)
		return fmt.Errorf("%w: %d keys are held or asked for, and more than %d could fill the server's lock table, "+
			"which breaks all of its sessions (raise max_locks_per_transaction, or see WithMaxHeld)",
			driver.ErrTooManyLocks, used-1, limit)
	}
	g.counted = true
	return nil
}

// giveBack stops counting the key of g.
func (b *Budget) giveBack(g *Grant) {
	if g.counted {
		g.counted = false
		b.used.Add(-1)
	}
}
