// Package locktest helps to test what uses locks, and what implements them.
//
// [NewMemory] and [Server] give unit tests a Locker that needs no server; [Server.Lose] makes its locks get lost.
// [Exercise] is the conformance suite that every backend of package pglock passes.
package locktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// NewMemory returns a Locker whose locks live in this process and exclude no other process: that of a new [Server]. It
// is for unit tests, and works in a bubble of testing/synctest. It has no lease and no registry of names; options for
// them and for PostgreSQL are errors that match [pglock.ErrUnsupported].
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
func NewServer() *Server { return &Server{} }

// Locker returns one more Locker on s.
func (s *Server) Locker(opts ...pglock.Option) (*pglock.Locker, error) {
	return pglock.NewWithBackend(&backend{server: s}, opts...)
}

// Lose takes the lock on key away from all who hold it, as a server does that ends their sessions, and reports how many
// those were. Their Locks end with a *[pglock.LostError] of reason session.
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
		g.request.Owner.Lost(driver.ReasonSession, errors.New("the test took it away"))
	}
	return len(lost)
}

// grant is a request that holds, or waits.
type grant struct {
	request driver.Request
	ready   chan struct{} // closed when it is granted
}

// Deadline implements [driver.Grant].
func (*grant) Deadline() driver.Instant { return driver.Never }

func (g *grant) has(id driver.KeyID) bool {
	return slices.ContainsFunc(g.request.Keys, func(k driver.Key) bool { return k.KeyID == id })
}

// excludes reports whether the two cannot be granted together.
func (g *grant) excludes(other *grant) bool {
	return !(g.request.Shared && other.request.Shared) &&
		slices.ContainsFunc(g.request.Keys, func(k driver.Key) bool { return other.has(k.KeyID) })
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

// remove takes g away, wherever it is, and reports whether it held locks; then others get their turn.
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

// backend is one client of a Server.
type backend struct{ server *Server }

func (*backend) Start(env driver.Config) error {
	switch {
	case env.Lease != 0:
		return fmt.Errorf("%w: locks in memory have no lease", driver.ErrUnsupported)
	case env.RecordNames:
		return fmt.Errorf("%w: locks in memory have no registry of names", driver.ErrUnsupported)
	}
	return nil
}

func (*backend) Ping(ctx context.Context) error { return context.Cause(ctx) }

func (*backend) Close(context.Context) error { return nil }

func (b *backend) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	g := &grant{request: r, ready: make(chan struct{})}
	g.request.Keys = slices.Clone(r.Keys)
	s := b.server
	s.mu.Lock()
	granted := s.add(g)
	if !granted && !r.Wait {
		s.remove(g)
	}
	s.mu.Unlock()
	switch {
	case granted:
		return g, nil
	case !r.Wait:
		return nil, driver.ErrNotAcquired
	}
	select {
	case <-g.ready:
		return g, nil
	case <-ctx.Done():
		// A grant that has come meanwhile is given back: both are decided under mu.
		s.mu.Lock()
		defer s.mu.Unlock()
		s.remove(g)
		return nil, context.Cause(ctx)
	}
}

func (b *backend) Release(_ context.Context, held driver.Grant) error {
	g, ok := held.(*grant)
	if !ok {
		return errors.New("a grant of another backend")
	}
	b.server.mu.Lock()
	defer b.server.mu.Unlock()
	if !b.server.remove(g) {
		return driver.ErrLost
	}
	return nil
}

func (b *backend) Check(_ context.Context, held driver.Grant) error {
	g, ok := held.(*grant)
	if !ok {
		return errors.New("a grant of another backend")
	}
	b.server.mu.Lock()
	defer b.server.mu.Unlock()
	if !slices.Contains(b.server.granted, g) {
		return driver.ErrLost
	}
	return nil
}

func (b *backend) Holders(_ context.Context, key driver.Key) ([]driver.Holder, error) {
	b.server.mu.Lock()
	defer b.server.mu.Unlock()
	holders := []driver.Holder{}
	for _, g := range b.server.granted {
		if g.has(key.KeyID) {
			holders = append(holders, driver.Holder{Shared: g.request.Shared, Token: g.request.Token.String()})
		}
	}
	return holders, nil
}

// Fence implements [driver.Fencer].
func (b *backend) Fence(ctx context.Context, held driver.Grant) (int64, error) {
	if err := b.Check(ctx, held); err != nil {
		return 0, err
	}
	b.server.mu.Lock()
	defer b.server.mu.Unlock()
	b.server.fence++
	return b.server.fence, nil
}
