package rowlock

import "sync"

// group is the goroutines of the backend.
type group struct {
	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup
}

// start runs f in a goroutine. It returns false if the group is closed.
func (g *group) start(f func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.running.Go(f)
	}
	return !g.closed
}

// close waits until all have ended.
func (g *group) close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.running.Wait()
}

// later runs f in the background, or not at all if the backend is closed. The channel is closed afterwards.
func (b *backend) later(f func()) <-chan struct{} {
	done := make(chan struct{})
	if !b.background.start(func() { defer close(done); f() }) {
		close(done)
	}
	return done
}
