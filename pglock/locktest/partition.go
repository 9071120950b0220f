package locktest

import (
	"slices"
	"time"

	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// Partition cuts Lockers off from s, as a broken network does, until heal is called: those given, or else all Lockers of
// s. Further calls of heal are harmless. Lockers of other Servers are left alone.
//
// Meanwhile their calls fail with [pglock.ErrUnavailable], also those that are already waiting. Their locks last as long
// as the lease, which is 15 s unless pglock.WithLease says otherwise: after nine tenths of it they end, with a
// *[pglock.LostError] of reason lease, and after all of it the server gives them to others. An Unlock in a partition is
// not confirmed; it takes effect on the server when the partition or the lease ends.
func (s *Server) Partition(lockers ...*pglock.Locker) (heal func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var healing []func()
	for l, b := range s.clients {
		if !b.cut && (len(lockers) == 0 || slices.Contains(lockers, l)) {
			healing = append(healing, s.cutLocked(b))
		}
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, heal := range healing {
			heal()
		}
		healing = nil
	}
}

// cutLocked cuts b off, and returns the function that reconnects it.
func (s *Server) cutLocked(b *backend) (healLocked func()) {
	b.cut = true
	for _, g := range s.waiting {
		if g.client == b {
			close(g.cut)
		}
	}
	trusted := b.env.Lease * 9 / 10
	expiry := driver.Now().Add(trusted)
	var held []*grant
	for _, g := range s.granted {
		if g.client == b {
			g.expiry.Store(int64(expiry))
			held = append(held, g)
		}
	}
	client := time.AfterFunc(trusted, func() { s.lapse(held) })
	server := time.AfterFunc(b.env.Lease, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.removeLocked(held, func(*grant) bool { return true })
	})
	return func() {
		b.cut = false
		client.Stop()
		server.Stop()
		s.removeLocked(held, func(g *grant) bool { return g.gone })
		for _, g := range held {
			g.expiry.Store(0)
		}
	}
}

// lapse ends locks whose lease is over for their client.
func (s *Server) lapse(held []*grant) {
	s.mu.Lock()
	var lost []*grant
	for _, g := range held {
		if !g.gone {
			g.gone = true
			lost = append(lost, g)
		}
	}
	s.mu.Unlock()
	for _, g := range lost {
		g.request.LossHandler.Lost(driver.LostLease, errCut)
	}
}

func (s *Server) removeLocked(held []*grant, which func(*grant) bool) {
	for _, g := range held {
		if which(g) {
			s.remove(g)
		}
	}
}
