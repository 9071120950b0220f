package mux

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/wire"
)

// Grant is a set of keys that one session holds, all exclusively or all shared.
type Grant struct {
	session  *Session
	keys     []driver.KeyID
	one      [1]driver.KeyID // room for the only one
	reserved int32           // keys of the budget
	place    int32           // among the session's grants
	shared   bool
	owner    driver.LossHandler
}

// NewGrant returns a grant for a try to fill.
func NewGrant(keys []driver.Key, shared bool, owner driver.LossHandler) *Grant {
	g := &Grant{shared: shared, owner: owner}
	g.keys = g.one[:0]
	for _, key := range keys {
		g.keys = append(g.keys, key.KeyID)
	}
	return g
}

// Keys returns the keys. The caller must not modify the slice.
func (g *Grant) Keys() []driver.KeyID { return g.keys }

// reduce reduces the keys to those for which got is true.
func (g *Grant) reduce(got []bool) {
	kept := g.keys[:0]
	for i, id := range g.keys {
		if got[i] {
			kept = append(kept, id)
		}
	}
	g.keys = kept
}

// Arrays returns the keys in the form that statements take.
func (g *Grant) Arrays() (spaces []int16, numbers []int64) {
	for _, id := range g.Keys() {
		spaces, numbers = append(spaces, int16(id.Space)), append(numbers, id.Number)
	}
	return spaces, numbers
}

// Operation returns what a statement must do with one of the keys: lock it or release it.
func (g *Grant) Operation(id driver.KeyID, release bool) (op wire.Operation) {
	if id.Space == driver.SpacePair {
		op |= wire.Pair
	}
	if g.shared {
		op |= wire.Shared
	}
	if release {
		op |= wire.Release
	}
	return op
}

// Shared reports whether the keys are held shared.
func (g *Grant) Shared() bool { return g.shared }

// Deadline implements [driver.Grant]: the session's lease is the grant's.
func (g *Grant) Deadline() driver.Instant { return g.session.lease.Deadline() }

// Session returns the session that holds the grant.
func (g *Grant) Session() *Session { return g.session }

// Release releases the keys. Whatever it returns, they are free as soon as the server has carried out the statement. It
// ignores ctx.
func (g *Grant) Release(context.Context) error { return g.session.release(g) }

// Check asks the server whether the session holds the keys. If it holds only some of them, Check releases those.
func (g *Grant) Check(ctx context.Context) error {
	spaces, numbers := g.Arrays()
	held, err := g.session.Ask(ctx, lockdb.CheckSession, wire.ArrayText(numbers), wire.ArrayText(spaces))
	if err != nil || held == strconv.Itoa(len(numbers)) {
		return err
	}
	err = wire.LostBecause(fmt.Errorf("the server session holds %s of %d keys", held, len(numbers)))
	if released := g.session.release(g); released != nil && !errors.Is(released, driver.ErrLost) {
		return errors.Join(err, released)
	}
	return err
}
