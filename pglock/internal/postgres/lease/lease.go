// Package lease has the arithmetic of a lock session's lease.
//
// A session lock lives as long as its session, so the session is what is leased. The server ends a session that it has
// heard nothing from for the lease (idle_session_timeout), and its clock starts when it has answered a statement. That is
// after the statement was sent. So the client may trust the session until
//
//	the moment at which it sent the last answered statement + the lease - a tenth of it
//
// and the server frees the locks later than that, whatever the network does. The tenth is for clocks that run at
// different speeds and for timers that are late.
//
// A session that is not used sends a heartbeat every fifth of the lease, so a few of them may be lost.
//
// The clock is a parameter: production uses [driver.Now], which keeps running while the machine sleeps, and tests use
// their own.
package lease

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// Clock returns the current time.
type Clock func() driver.Instant

// Lease is the lease of one session. It may be used from many goroutines at once.
type Lease struct {
	length time.Duration
	clock  Clock
	until  atomic.Int64 // a driver.Instant
}

// New returns a lease that begins now.
func New(length time.Duration, clock Clock) *Lease {
	l := &Lease{length: length, clock: clock}
	l.until.Store(math.MinInt64) // an instant may be negative
	l.Renew(clock())
	return l
}

// Now reads the lease's clock.
func (l *Lease) Now() driver.Instant { return l.clock() }

// Length returns how long the server keeps the locks of a client that has fallen silent.
func (l *Lease) Length() time.Duration { return l.length }

// Every returns how long a session may be quiet before it sends a heartbeat.
func (l *Lease) Every() time.Duration { return l.length / 5 }

// Renew renews the lease when a statement that was sent at the given instant has been answered. The deadline never moves
// back.
func (l *Lease) Renew(sent driver.Instant) {
	until := int64(sent.Add(l.length - l.length/10))
	for before := l.until.Load(); before < until; before = l.until.Load() {
		if l.until.CompareAndSwap(before, until) {
			return
		}
	}
}

// Deadline returns the instant until which the session can be trusted.
func (l *Lease) Deadline() driver.Instant { return driver.Instant(l.until.Load()) }

// Left returns how much longer the session can be trusted. It is not positive if the deadline has passed.
func (l *Lease) Left() time.Duration { return l.Deadline().Sub(l.clock()) }

// Over reports whether the deadline has passed.
func (l *Lease) Over() bool { return l.Left() <= 0 }

// Reason says whether the session broke or its lease ran out.
func (l *Lease) Reason() driver.LostReason {
	if l.Over() {
		return driver.LostLease
	}
	return driver.LostSession
}
