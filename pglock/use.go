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

// UseKind is a kind of [Use]. Packages that build on a [Locker] may add kinds of their own.
type UseKind string

// The kinds of uses.
const (
	UseLock          UseKind = ""                 // a lock that was asked for directly
	UseLeader        UseKind = "leader"           // the lock of a leader, see package leader
	UseLeaderMark    UseKind = "leader mark"      // a lock by which the monitor recognises a leader
	UsePermit        UseKind = "semaphore permit" // a slot of a semaphore, see package semaphore
	UseSemaphoreGate UseKind = "semaphore gate"   // the place at the head of a semaphore's line
	UseTick          UseKind = "tick"             // the lock of a job that runs once for each due time, see package schedule
	UseTickMark      UseKind = "tick mark"        // a lock by which the monitor recognises a tick
	UseOnce          UseKind = "once"             // work that is done once, see package once
	UseRate          UseKind = "rate limit"       // an event of a rate limit, see package ratelimit
)

// String returns the kind and the key.
func (u Use) String() string {
	if u.Kind == UseLock {
		return "lock"
	}
	return fmt.Sprintf("%s of %s", u.Kind, shorttext.Quote(u.Key.String()))
}

// WithUse tells the [Observer] what a lock is for. It is for packages that build on a [Locker]. A try that is refused is
// not reported as Failed then: such a package may try several locks, and reports how its own caller's request ended.
func WithUse(use Use) LockOption {
	return lockOption(func(c *lockConfig) error {
		c.use = &use
		return nil
	})
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
