package pglock

import (
	"fmt"

	"github.com/pglock-toolkit/pglock/internal/shorttext"
)

// Use says what a lock is for, in reports to an [Observer]. The zero Use is a lock that was asked for directly.
type Use struct {
	Kind UseKind
	Key  Key // of the primitive; the lock's own key may be derived from it
}

// UseKind is a kind of [Use]. Primitives also take locks for their own purposes, whose kinds have no constants.
type UseKind string

// The kinds of uses.
const (
	UseLock   UseKind = ""                 // a lock that was asked for directly
	UseLeader UseKind = "leader"           // the lock of a leader, see package leader
	UsePermit UseKind = "semaphore permit" // a slot of a semaphore, see package semaphore
	UseTick   UseKind = "tick"             // the lock of a job that runs once for each due time, see package schedule
	UseOnce   UseKind = "once"             // work that is done once, see package once
	UseRate   UseKind = "rate limit"       // an event of a rate limit, see package ratelimit
)

// String returns the kind and the key.
func (u Use) String() string {
	if u.Kind == UseLock {
		return "lock"
	}
	return fmt.Sprintf("%s of %s", u.Kind, shorttext.Quote(u.Key.String()))
}

// used returns what the lock is for.
func (l *Lock) used() Use {
	l.mu.Lock()
	defer l.mu.Unlock()
	if x := l.lazy; x != nil && x.use != nil {
		return *x.use
	}
	return Use{}
}

// used returns what the lock that r asks for is for.
func (r *request) used() Use {
	if r.config.use == nil {
		return Use{}
	}
	return *r.config.use
}
