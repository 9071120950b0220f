// Package locktest helps to test what uses locks, and what implements them.
//
// [NewMemory] and [Server] give unit tests a Locker that needs no server; [Server.Lose] takes its locks away.
// [Exercise] is the conformance suite that every backend of package pglock passes.
package locktest

import (
	"errors"
	"slices"
	"sync"

	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// NewMemory returns a Locker on a new [Server]. Its locks live in this process and exclude no others. It is for unit
// tests, and works in a bubble of testing/synctest. It takes every Option that production code may give: those for
// PostgreSQL's sessions have no effect, and names are not recorded. It has no transactions: GuardTx is
// [pglock.ErrUnsupported].
func NewMemory(opts ...pglock.Option) (*pglock.Locker, error) { return NewServer().Locker(opts...) }

// Server is a lock server in memory. The Lockers that it makes exclude each other as those of several processes do.
// Its methods may be called concurrently.
type Server struct {
	mu      sync.Mutex
	granted []*grant // in the order of granting
	waiting []*grant // in the order of asking
	fence   int64
	jobs    map[string]*jobRuns
}

// NewServer returns a server that holds no locks.
func NewServer() *Server { return &Server{jobs: map[string]*jobRuns{}} }

// Locker returns one more Locker on s.
func (s *Server) Locker(opts ...pglock.Option) (*pglock.Locker, error) {
	return pglock.NewWithBackend(&backend{server: s}, opts...)
}

// Lose takes the lock on key away from all its holders, as a server does when it ends their sessions, and returns how
// many there were. Their Locks end with a *[pglock.LostError] of reason session.
func (s *Server) Lose(key pglock.Key) int {
	s.mu.Lock()
	var lost []*grant
	for _, g := range s.granted {
		if g.has(key.ID()) {
			lost = append(lost, g)
		}
	}
	for _, g := range lost {
		s.remove(g)
	}
	s.mu.Unlock()
	for _, g := range lost {
		g.request.LossHandler.Lost(driver.LostSession, errors.New("the test took it away"))
	}
	return len(lost)
}

// grant is a request that holds, or waits.
type grant struct {
	request     driver.Request
	application string
	ready       chan struct{} // closed when it is granted
}

// Deadline implements [driver.Grant].
func (g *grant) Deadline() driver.Instant { return driver.Never }

func (g *grant) has(id driver.KeyID) bool { return g.request.Key.KeyID == id }

// excludes reports whether the two cannot be granted together.
func (g *grant) excludes(other *grant) bool {
	return !(g.request.Shared && other.request.Shared) && other.has(g.request.Key.KeyID)
}

// add grants g if nothing is in its way, and queues it otherwise.
func (s *Server) add(g *grant) (granted bool) {
	excludes := func(other *grant) bool { return g.excludes(other) }
	if slices.ContainsFunc(s.granted, excludes) || slices.ContainsFunc(s.waiting, excludes) {
		s.waiting = append(s.waiting, g)
		return false
	}
	s.granted = append(s.granted, g)
	close(g.ready)
	return true
}

// remove removes g from the holders or the queue, and reports whether it held locks; then others may be granted.
func (s *Server) remove(g *grant) (held bool) {
	held = slices.Contains(s.granted, g)
	is := func(other *grant) bool { return other == g }
	s.granted = slices.DeleteFunc(s.granted, is)
	queue := slices.DeleteFunc(s.waiting, is)
	s.waiting = nil
	for _, waiter := range queue {
		s.add(waiter)
	}
	return held
}
