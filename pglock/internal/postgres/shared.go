package postgres

import (
	"context"
	"errors"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// PostgreSQL grants a session a shared lock that it holds already at once, past a writer that waits for it. So a main
// session takes a shared key once, and whoever wants it too asks on a session that does not hold it, the probe: the
// server refuses that exactly when a writer holds the key or waits for it. If it is granted, the request joins the grant
// that the main session has, while the probe's own lock makes sure that no writer comes between, and the probe is
// unlocked. So any number of readers takes one session more.

// sharedKey is a shared key of a main session.
type sharedKey struct {
	refs int // grants that live on it; 0 while it is asked for
	lane *mainSession
}

// errCarried says that a main session holds one of the shared keys already, or is asked to.
var errCarried = errors.New("a main session carries the shared key")

// errTooEarly says that a shared key was neither free nor to be joined yet, or any more.
var errTooEarly = errors.New("the shared key is changing hands")

// expectShared notes that a main session is asked for g's keys. It runs under mu.
func (l *lanes) expectShared(g *grant) error {
	if !g.shared {
		return nil
	}
	for i := range g.numbers {
		if l.shared[g.id(i)] != nil {
			return errCarried
		}
	}
	for i := range g.numbers {
		l.shared[g.id(i)] = &sharedKey{}
	}
	return nil
}

// unexpectShared undoes expectShared. It runs under mu.
func (l *lanes) unexpectShared(g *grant) {
	if !g.shared {
		return
	}
	for i := range g.numbers {
		delete(l.shared, g.id(i))
	}
}

// settleShared notes that s has g's keys. It runs under mu.
func (l *lanes) settleShared(g *grant, s *mainSession) {
	if !g.shared {
		return
	}
	for i := range g.numbers {
		*l.shared[g.id(i)] = sharedKey{refs: 1, lane: s}
	}
}

// join makes g one more grant on a key that a main session holds, and reports false when none does any more.
func (l *lanes) join(g *grant) (joined bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.shared[g.id(0)]
	if k == nil || k.refs == 0 || k.lane.cause != nil {
		return false, nil
	}
	if err := l.reserve(1); err != nil {
		return false, err
	}
	k.refs++
	g.lane = k.lane
	k.lane.grants.add(g)
	return true, nil
}

// part ends a grant that shares its key with others, and reports false for the last one, which the server must hear of.
func (l *lanes) part(g *grant) bool {
	if len(g.numbers) != 1 {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.shared[g.id(0)]
	if k == nil || k.lane != g.lane {
		return false
	}
	if k.refs--; k.refs == 0 { // from now on nobody can join
		return false
	}
	if g.lane.grants.remove(g) {
		l.keys--
	}
	return true
}

// joinShared is tryMain for a key that a main session holds shared.
func (b *Backend) joinShared(ctx context.Context, r driver.Request) (*grant, error) {
	select {
	case b.probe <- struct{}{}: // one at a time, so that it takes one session
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-b.probe }()
	r.Wait = false
	owner := r.Owner
	r.Owner = nobody{}
	probe, err := b.acquireAlone(ctx, r)
	if err != nil {
		return nil, err
	}
	r.Owner = owner
	g := newGrant(nil, r)
	joined, err := b.lanes.join(g)
	_ = b.releaseAlone(ctx, probe) // if it fails the probe's session ends, which releases it as well
	switch {
	case joined:
		return g, nil
	case err == nil:
		err = errTooEarly
	}
	return nil, err
}

// nobody owns the probe's locks.
type nobody struct{}

func (nobody) Lost(driver.Reason, error) {}
