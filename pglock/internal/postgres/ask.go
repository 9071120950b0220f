package postgres

import (
	"sync"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// ask is one thing that a caller wants of the main sessions: to try to lock the keys of a grant, or to release them. It
// belongs to the grant, which does one thing at a time.
type ask struct {
	grant  *grant
	caller *caller // who waits for it: nobody for the release of what nobody took

	// Under lanes.mu:
	err   error
	state askState

	looks uint8 // of patrol at it

	release bool
	retried bool // after a statement that somebody cancelled
}

// caller is what somebody who waits for an ask needs, kept for later ones.
type caller struct {
	// wake gets nil when the ask is answered, and before that may get a session that its caller is to read from, or overdue.
	// It has room for all that it gets, so that nobody waits to send.
	wake chan *mainSession
	// last is the session that the last ask went to. Callers are kept by processor (sync.Pool), and so a goroutine, or those
	// that run beside it, often comes to a session whose backend runs on the same processor.
	last *mainSession
}

var callers = sync.Pool{New: func() any { return &caller{wake: make(chan *mainSession, 2)} }}

// leave keeps the caller for the next ask, which may go where this one went.
func (a *ask) leave() {
	a.caller.last = a.grant.lane
	callers.Put(a.caller)
}

type askState uint8

const (
	pending   askState = iota // in a queue; its caller may take it back
	sent                      // in a statement
	abandoned                 // in a statement, and its caller has left: a lock is given back when it comes
	answered
)

// newAsk makes g ask for something. It has the grant's own ask, so there is one at a time.
func (g *grant) newAsk(release bool) *ask {
	g.ask = ask{grant: g, release: release, caller: callers.Get().(*caller)}
	return &g.ask
}

// Operations of the statement Batch.
const (
	opPair    = 1
	opShared  = 2
	opRelease = 4
)

// operation is the code for one of the keys.
func (a *ask) operation(i int) int16 {
	var op int16
	if a.grant.spaces()[i] == int16(driver.Pair) {
		op |= opPair
	}
	if a.grant.shared {
		op |= opShared
	}
	if a.release {
		op |= opRelease
	}
	return op
}

// plainBigint reports whether the ask is for one exclusive lock of the bigint space, which has statements of its own.
func (a *ask) plainBigint() bool {
	return a.grant.len() == 1 && a.operation(0)&^opRelease == 0
}
