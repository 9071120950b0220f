package mux

import (
	"context"
	"strconv"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/wire"
)

// Grant is a key that one session holds.
type Grant struct {
	session *Session
	key     driver.KeyID
	place   int32 // among the session's grants
	counted bool  // in the budget
	shared  bool
	owner   driver.LossHandler
}

// NewGrant returns a grant for a try to fill.
func NewGrant(key driver.KeyID, shared bool, owner driver.LossHandler) *Grant {
	return &Grant{key: key, shared: shared, owner: owner}
}

// Key returns the key.
func (g *Grant) Key() driver.KeyID { return g.key }

// Operation returns what a statement must do with the key: lock it or release it.
func (g *Grant) Operation(release bool) (op wire.Operation) {
	if g.key.Space == driver.SpacePair {
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

// Shared reports whether the key is held shared.
func (g *Grant) Shared() bool { return g.shared }

// Deadline implements [driver.Grant]: the session's lease is the grant's.
func (g *Grant) Deadline() driver.Instant { return g.session.lease.Deadline() }

// Session returns the session that holds the grant.
func (g *Grant) Session() *Session { return g.session }

// Release releases the key. Whatever it returns, the key is free as soon as the server has carried out the statement. It
// ignores ctx.
func (g *Grant) Release(context.Context) error {
	free, err := g.session.free, g.session.release(g)
	if free != nil {
		driver.WhenSettled(err, free)
	}
	return err
}

// Check asks the server whether the session holds the key.
func (g *Grant) Check(ctx context.Context) error {
	held, err := g.session.Ask(ctx, lockdb.CheckSession, strconv.Itoa(int(g.key.Space)), strconv.FormatInt(g.key.Number, 10))
	if err == nil && held != "t" {
		err = wire.LostBecause(errNotHeld)
	}
	return err
}
