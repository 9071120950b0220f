package wire

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// Watch notices that one idle connection has data to read. Only the caller that has the session to itself may call its
// methods. A notification may be delivered just after Disarm, so the session checks that it is idle.
type Watch interface {
	// Notify sets what is called, from any goroutine, once for each Arm at most.
	Notify(func())
	Arm()
	Disarm()
	// Forget ends the watching, before the connection is closed.
	Forget()
}

// watch returns a Watch for a connection: the Watcher's, if it has a descriptor, or else the connection's own.
func (w *Watcher) watch(conn net.Conn) Watch {
	conn = bare(conn)
	if p, ok := conn.(*peeking); ok {
		return p
	}
	if watch := w.watchDescriptor(conn); watch != nil {
		return watch
	}
	return unwatched{}
}

// Watchable returns conn such that it can be watched.
func Watchable(conn net.Conn) net.Conn {
	if hasDescriptor(bare(conn)) {
		return conn
	}
	return newPeeking(conn)
}

// unwatched is for connections whose end need not be noticed before they are used.
type unwatched struct{}

func (unwatched) Notify(func()) {}
func (unwatched) Arm()          {}
func (unwatched) Disarm()       {}
func (unwatched) Forget()       {}

// peeking is the plain way to watch: while the session is idle a goroutine reads, and keeps the bytes for the session.
type peeking struct {
	net.Conn
	notify  func()
	reading chan struct{} // closed when the goroutine has stopped; nil when there is none

	mu     sync.Mutex
	buffer [512]byte
	early  []byte // the bytes that were read
	err    error  // or why there are none
}

func newPeeking(conn net.Conn) *peeking { return &peeking{Conn: conn} }

func (p *peeking) Notify(notify func()) { p.notify = notify }

func (p *peeking) Arm() {
	done := make(chan struct{})
	p.reading = done
	go func() {
		readable := p.readEarly()
		close(done)
		if readable {
			p.notify()
		}
	}()
}

// readEarly reports whether there is something to read; it returns false when it is interrupted.
func (p *peeking) readEarly() bool {
	p.mu.Lock()
	left := len(p.early) > 0
	p.mu.Unlock()
	if left {
		return true
	}
	n, err := p.Conn.Read(p.buffer[:])
	p.mu.Lock()
	defer p.mu.Unlock()
	p.early = p.buffer[:n]
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		p.err = err
	}
	return n > 0 || p.err != nil
}

func (p *peeking) Disarm() {
	if p.reading == nil {
		return
	}
	_ = p.Conn.SetReadDeadline(longAgo) // these fail only on a closed connection, which the next use finds out
	<-p.reading
	p.reading = nil
	_ = p.Conn.SetReadDeadline(time.Time{})
}

func (p *peeking) Forget() {}

// Read implements [net.Conn].
func (p *peeking) Read(b []byte) (int, error) {
	p.mu.Lock()
	if len(p.early) > 0 || p.err != nil {
		defer p.mu.Unlock()
		n := copy(b, p.early)
		p.early = p.early[n:]
		if n == 0 {
			return 0, p.err
		}
		return n, nil
	}
	p.mu.Unlock()
	return p.Conn.Read(b)
}
