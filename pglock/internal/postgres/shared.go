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
	asker *grant       // it is asked for, or
	lane  *mainSession // the session that holds it
	refs  int          // for so many grants; for none while it is being released
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
	for i := range g.len() {
		if l.shared[g.id(i)] != nil {
			return errCarried
		}
	}
	for i := range g.len() {
		l.shared[g.id(i)] = &sharedKey{asker: g}
	}
	return nil
}

// forgetShared undoes expectShared and settleShared for one key of g. It runs under mu.
func (l *lanes) forgetShared(g *grant, i int) {
	k := l.shared[g.id(i)]
	if k != nil && (k.asker == g || k.asker == nil && k.lane == g.lane) {
		delete(l.shared, g.id(i))
	}
}

// settleShared notes that s has g's keys, and for whom: for nobody if they are to be given back at once. It runs under
// mu.
func (l *lanes) settleShared(g *grant, s *mainSession, refs int) {
	if !g.shared {
		return
	}
	for i := range g.len() {
		*l.shared[g.id(i)] = sharedKey{lane: s, refs: refs}
	}
}

// join makes g one more grant on a key that a main session holds, and reports false when none does any more.
func (l *lanes) join(g *grant) (joined bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.shared[g.id(0)]
	if k == nil || k.refs == 0 {
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

// part leaves the keys that others need too to them, and reduces g to those that the server must hear of. It reports
// whether that is none.
func (l *lanes) part(g *grant) (done bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	mine := make([]bool, g.len())
	for i := range g.len() {
		k := l.shared[g.id(i)]
		if k == nil || k.lane != g.lane { // lost
			mine[i] = true
			continue
		}
		k.refs--
		if mine[i] = k.refs == 0; !mine[i] {
			l.keys--
		}
	}
	g.keep(mine)
	return g.len() == 0 && g.lane.grants.remove(g)
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
