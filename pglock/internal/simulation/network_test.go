package simulation

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pglock-toolkit/pglock/internal/timing"
)

// network joins the hosts of Lockers with the server. Every write arrives after a delay, in order, unless the network is
// silent: then it arrives when the silence is over.
type network struct {
	s     *simulation
	hosts []*host

	mu     sync.Mutex
	links  []*link
	change chan struct{} // closed when a silence ends
}

// host is the machine of one Locker.
type host struct {
	network *network
	locker  int
	silent  int // under network.mu: silences that have not ended
	dials   int
}

// link is one connection between a Locker and the server. Its ends are that of the client and that of the server.
type link struct {
	number  int
	host    *host
	process atomic.Pointer[process] // nil for a cancel request
	ends    [2]*end
	random  *rand.Rand // for delays; under mu

	mu      sync.Mutex
	noticed time.Time // when the client could first know that the server has ended the session
}

// end is one side of a link.
type end struct {
	*link
	peer *end

	// Under link.mu:
	queue    []packet  // on their way to this end, in order
	silences int       // that have not ended
	since    time.Time // when the first of them began
	arrived  []byte
	err      error // what follows what has arrived
	closed   bool
	leaving  bool // what it sends from now on says that the session ends
	deadline time.Time
	ready    *sync.Cond
	timers   [2]*time.Timer // of arrival, and of the deadline
}

// packet is what arrives at once: bytes, and then err unless it is nil.
type packet struct {
	at       time.Time
	bytes    []byte
	err      error
	farewell bool // the server says in it that the session ends
}

func newNetwork(s *simulation, lockers int) *network {
	n := &network{s: s, change: make(chan struct{})}
	for i := range lockers {
		n.hosts = append(n.hosts, &host{network: n, locker: i})
	}
	return n
}

// dial connects to the server. While the network is silent it waits.
func (h *host) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	n := h.network
	n.mu.Lock()
	h.dials++
	l := &link{host: h, random: n.s.source(uint64(1+h.locker)<<32 + uint64(h.dials))}
	n.mu.Unlock()
	for i := range l.ends {
		l.ends[i] = &end{link: l, ready: sync.NewCond(&l.mu)}
	}
	l.ends[0].peer, l.ends[1].peer = l.ends[1], l.ends[0]
	if !timing.Sleep(ctx, l.delay()+l.delay()) {
		return nil, ctx.Err()
	}
	for {
		n.mu.Lock()
		if h.silent == 0 {
			l.number = len(n.links) + 1
			n.links = append(n.links, l)
			n.mu.Unlock()
			break
		}
		change := n.change
		n.mu.Unlock()
		select {
		case <-change:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if !n.s.server.accept(l) {
		return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	}
	return l.ends[0], nil
}

// delay draws how long something is on its way.
func (l *link) delay() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.delayLocked()
}

func (l *link) delayLocked() time.Duration {
	s := l.host.network.s
	d := s.distance + s.vary(l.random, s.distance)
	if l.random.IntN(s.spikes) == 0 {
		d += s.vary(l.random, s.lease/20)
	}
	return d
}

// direction says to which ends nothing arrives: that of the client, that of the server.
type direction [2]bool

// silence stops what is sent over a link, until heal.
func (l *link) silence(d direction) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, e := range l.ends {
		if d[i] {
			if e.silences == 0 {
				e.since = time.Now()
			}
			e.silences++
		}
	}
}

// heal ends a silence of a link. Others may have begun meanwhile.
func (l *link) heal(d direction) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, e := range l.ends {
		if d[i] && e.silences > 0 {
			e.silences--
			e.arriveLocked()
		}
	}
}

// timeOut ends a connection that has been silent for the lease, as keepalives do.
func (l *link) timeOut() {
	l.mu.Lock()
	dead := slices.ContainsFunc(l.ends[:], func(e *end) bool { return e.silences > 0 && time.Since(e.since) >= l.host.network.s.lease })
	l.mu.Unlock()
	if dead {
		l.cut(syscall.ETIMEDOUT, l.ends[:]...)
	}
}

// cut breaks a link. The ends that it is for know it after a delay; another one, when it sends.
func (l *link) cut(err error, ends ...*end) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range ends {
		e.queue = nil
		e.silences = 0
		e.sendLocked(packet{err: err})
	}
}

// sendLocked puts a packet on its way to e.
func (e *end) sendLocked(p packet) {
	p.at = time.Now().Add(e.delayLocked())
	if n := len(e.queue); n > 0 && e.queue[n-1].at.After(p.at) {
		p.at = e.queue[n-1].at
	}
	e.queue = append(e.queue, p)
	if len(e.queue) == 1 {
		e.arriveLocked()
	}
}

// arrive takes the packets out of the queue for which it is time.
func (e *end) arrive() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.arriveLocked()
}

func (e *end) arriveLocked() {
	for len(e.queue) > 0 && e.silences == 0 {
		p := e.queue[0]
		if left := time.Until(p.at); left > 0 {
			setTimer(&e.timers[0], left, e.arrive)
			break
		}
		e.queue = e.queue[1:]
		if e.closed && p.bytes != nil {
			e.peer.sendLocked(packet{err: errReset})
		}
		if e.closed || e.err != nil {
			continue
		}
		e.arrived = append(e.arrived, p.bytes...)
		e.err = p.err
		if e == e.ends[0] && (p.err != nil || p.farewell) && e.noticed.IsZero() {
			e.noticed = time.Now()
			e.host.network.s.oracle.noticed(e.process.Load())
		}
	}
	e.ready.Broadcast()
}

func setTimer(timer **time.Timer, d time.Duration, f func()) {
	if *timer == nil {
		*timer = time.AfterFunc(d, f)
	} else {
		(*timer).Reset(d)
	}
}

// Read implements [net.Conn].
func (e *end) Read(b []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for {
		switch {
		case e.closed:
			return 0, net.ErrClosed
		case !e.deadline.IsZero() && !time.Now().Before(e.deadline):
			return 0, os.ErrDeadlineExceeded
		case len(e.arrived) > 0:
			n := copy(b, e.arrived)
			e.arrived = e.arrived[n:]
			return n, nil
		case e.err != nil:
			return 0, e.err
		}
		e.ready.Wait()
	}
}

// Write implements [net.Conn].
func (e *end) Write(b []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.closed:
		return 0, net.ErrClosed
	case e.err != nil:
		return 0, syscall.EPIPE
	}
	e.peer.sendLocked(packet{bytes: append([]byte(nil), b...), farewell: e.leaving})
	return len(b), nil
}

// farewell says that what is sent from now on tells of the end of the session.
func (e *end) farewell() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.leaving = true
}

// Close implements [net.Conn].
func (e *end) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed {
		e.closed = true
		e.peer.sendLocked(packet{err: io.EOF})
		e.ready.Broadcast()
	}
	return nil
}

// isOpen reports whether this side has not closed the connection and has not heard of its end.
func (e *end) isOpen() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.closed && e.err == nil
}

// isBroken reports whether this side could know that the connection has ended.
func (e *end) isBroken() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err != nil
}

// SetReadDeadline implements [net.Conn].
func (e *end) SetReadDeadline(at time.Time) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.deadline = at
	if left := time.Until(at); !at.IsZero() && left > 0 {
		setTimer(&e.timers[1], left, e.wake)
	}
	e.ready.Broadcast()
	return nil
}

func (e *end) wake() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ready.Broadcast()
}

// SetDeadline implements [net.Conn]. Writes never block.
func (e *end) SetDeadline(at time.Time) error { return e.SetReadDeadline(at) }

// SetWriteDeadline implements [net.Conn].
func (*end) SetWriteDeadline(time.Time) error { return nil }

// LocalAddr implements [net.Conn].
func (*end) LocalAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 5432} }

// RemoteAddr implements [net.Conn].
func (*end) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 5432} }

// NetConn says that this is a socket whose deadlines work, on which a caller may read itself.
func (*end) NetConn() net.Conn { return &net.UnixConn{} }

// silence stops everything that a host sends, or that is sent to it, until heal.
func (h *host) silence(d direction) {
	n := h.network
	n.mu.Lock()
	defer n.mu.Unlock()
	h.silent++
	for _, l := range n.links {
		if l.host == h {
			l.silence(d)
		}
	}
}

// heal ends the silence of a host.
func (h *host) heal(d direction) {
	n := h.network
	n.mu.Lock()
	defer n.mu.Unlock()
	h.silent--
	for _, l := range n.links {
		if l.host == h {
			l.heal(d)
		}
	}
	close(n.change)
	n.change = make(chan struct{})
}

// timeOut ends the connections of a host, as keepalives do after a silence.
func (h *host) timeOut() {
	n := h.network
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range n.links {
		if l.host == h {
			l.timeOut()
		}
	}
}

// open returns the sessions' links that are open on both sides.
func (n *network) open() (open []*link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range n.links {
		if l.process.Load() != nil && l.ends[0].isOpen() && l.ends[1].isOpen() {
			open = append(open, l)
		}
	}
	return open
}

// errReset is the end of a connection that broke.
var errReset = error(syscall.ECONNRESET)
