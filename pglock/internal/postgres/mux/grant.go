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
	session    *Session
	prev, next *Grant // in the session's list
	keys       keySet
	reserved   int32 // keys of the budget
	shared     bool
	owner      driver.Owner
}

// NewGrant makes what a try can fill.
func NewGrant(keys []driver.Key, shared bool, owner driver.Owner) *Grant {
	return &Grant{keys: newKeySet(keys), shared: shared, owner: owner}
}

// Deadline implements [driver.Grant]: the session's lease is the grant's.
func (g *Grant) Deadline() driver.Instant { return g.session.lease.Deadline() }

// Sessions are the one that holds the grant.
func (g *Grant) Sessions() []*Session { return []*Session{g.session} }

// Shared reports whether the keys are held shared.
func (g *Grant) Shared() bool { return g.shared }

// Keys lists the keys.
func (g *Grant) Keys() []driver.KeyID {
	ids := make([]driver.KeyID, g.keys.len())
	for i := range ids {
		ids[i] = g.keys.id(i)
	}
	return ids
}

// Release gives the keys back. Whatever it returns, they are given back as soon as the server takes the statement; ctx is
// not followed.
func (g *Grant) Release(context.Context) error { return g.session.release(g) }

// Check asks the server whether the session holds the keys. Those that are left of a grant that it does not hold whole are
// given back.
func (g *Grant) Check(ctx context.Context) error {
	all := g.keys.arrays()
	held, err := g.session.Ask(ctx, lockdb.CheckSession, wire.ArrayText(all.numbers), wire.ArrayText(all.spaces))
	if err != nil || held == strconv.Itoa(len(all.numbers)) {
		return err
	}
	err = wire.LostBecause(fmt.Errorf("the server session holds %s of %d keys", held, len(all.numbers)))
	if released := g.session.release(g); released != nil && !errors.Is(released, driver.ErrLost) {
		return errors.Join(err, released)
	}
	return err
}

// grantList is a list of grants that each can leave in constant time.
type grantList struct {
	first *Grant
	n     int
}

func (l *grantList) add(g *Grant) {
	l.n++
	g.prev, g.next = nil, l.first
	if g.next != nil {
		g.next.prev = g
	}
	l.first = g
}

// remove reports whether g was in the list.
func (l *grantList) remove(g *Grant) bool {
	switch {
	case g.prev != nil:
		g.prev.next = g.next
	case l.first == g:
		l.first = g.next
	default:
		return false
	}
	if g.next != nil {
		g.next.prev = g.prev
	}
	g.prev, g.next = nil, nil
	l.n--
	return true
}

// takeAll empties the list.
func (l *grantList) takeAll() []*Grant {
	all := make([]*Grant, 0, l.n)
	for g := l.first; g != nil; g = l.first {
		all = append(all, g)
		l.remove(g)
	}
	return all
}
