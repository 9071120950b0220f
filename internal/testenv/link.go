package testenv

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Link is a network between clients and servers. Each connection through it is two TCP connections on loopback with a
// forwarder between them, which delays data and can drop it without closing anything. While it drops data, the end of a
// connection is not passed on either.
//
// A Link may be used concurrently.
type Link struct {
	delay    time.Duration
	up, down atomic.Bool // drop what goes to the server, to the client

	life    context.Context // ends with Close
	end     context.CancelFunc
	mu      sync.Mutex // held while running grows, and by end
	upward  func(server, client net.Conn)
	running sync.WaitGroup
}

// NewLink returns a network on which data takes delay in each direction.
func NewLink(delay time.Duration) *Link {
	l := &Link{delay: delay}
	l.life, l.end = context.WithCancel(context.Background())
	l.upward = func(server, client net.Conn) { l.forward(server, client, &l.up) }
	return l
}

// ForwardUp has f forward what the clients of later connections send, without delays or drops. f returns when one side
// has ended.
func (l *Link) ForwardUp(f func(server, client net.Conn)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.upward = f
}

// Dial connects to address. While the link drops data it waits.
func (l *Link) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	for l.up.Load() || l.down.Load() {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-l.life.Done():
			return nil, net.ErrClosed
		case <-time.After(linkPause):
		}
	}
	server, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	client, far, err := connectionPair(ctx)
	if err != nil {
		return nil, errors.Join(err, server.Close())
	}
	if !l.join(server, far) {
		return nil, errors.Join(net.ErrClosed, client.Close())
	}
	return client, nil
}

// NewProxy returns a Link without delay, and an address on loopback at which it leads to the server at target. It is
// closed when the test ends. Clients can connect even while it drops data.
func NewProxy(t testing.TB, target string) (*Link, *net.TCPAddr) {
	t.Helper()
	return NewMovingProxy(t, func() string { return target })
}

// NewMovingProxy is [NewProxy] whose later connections lead to what target returns then. Connections end at once
// while that is empty.
func NewMovingProxy(t testing.TB, target func() string) (*Link, *net.TCPAddr) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := NewLink(0)
	l.running.Go(func() { l.serve(listener, target) })
	t.Cleanup(func() {
		_ = listener.Close()
		l.Close()
	})
	return l, listener.Addr().(*net.TCPAddr)
}

// SilentServer returns an address on loopback that accepts connections and sends nothing, until the test ends.
func SilentServer(t testing.TB) *net.TCPAddr {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().(*net.TCPAddr)
}

func (l *Link) serve(listener net.Listener, target func() string) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", target())
		if err != nil {
			_ = client.Close()
			continue
		}
		l.join(server, client)
	}
}

// join begins to forward between two connections. If the link has ended it closes them and reports false.
func (l *Link) join(server, client net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.life.Err() != nil {
		_, _ = client.Close(), server.Close()
		return false
	}
	forward := l.upward
	l.running.Go(func() { forward(server, client) })
	l.running.Go(func() { l.forward(client, server, &l.down) })
	l.running.Go(func() {
		<-l.life.Done()
		_, _ = client.Close(), server.Close()
	})
	return true
}

// Close ends all connections, and returns when no goroutine of the link is left. It may be called twice.
func (l *Link) Close() {
	l.mu.Lock()
	l.end()
	l.mu.Unlock()
	l.running.Wait()
}

// Cut sets whether the link drops what goes up, to the server, and down, to the client.
func (l *Link) Cut(up, down bool) {
	l.up.Store(up)
	l.down.Store(down)
}

// IsCutUp reports whether the link drops what goes to the server.
func (l *Link) IsCutUp() bool { return l.up.Load() }

// connectionPair returns the two ends of a TCP connection.
func connectionPair(ctx context.Context) (near, far net.Conn, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, listener.Close()) }()
	near, err = new(net.Dialer).DialContext(ctx, "tcp", listener.Addr().String())
	if err != nil {
		return nil, nil, err
	}
	far, err = listener.Accept()
	return near, far, err
}

type packet struct {
	due  time.Time
	data []byte
}

// forward passes on what arrives until the source ends. While the link drops data, the other side does not learn of the
// end.
func (l *Link) forward(to, from net.Conn, swallow *atomic.Bool) {
	packets := make(chan packet, 1024)
	var writer sync.WaitGroup
	writer.Go(func() {
		for p := range packets {
			time.Sleep(time.Until(p.due))
			if !swallow.Load() {
				_, _ = to.Write(p.data) // the reader notices the end
			}
		}
		l.awaitWhole(swallow)
		_ = to.Close()
	})
	for {
		buffer := make([]byte, 8192)
		n, err := from.Read(buffer)
		if err != nil {
			break
		}
		packets <- packet{time.Now().Add(l.delay), buffer[:n]}
	}
	close(packets)
	writer.Wait()
	_ = from.Close()
}

// awaitWhole returns when no data is dropped any more, or when the link has ended.
func (l *Link) awaitWhole(swallow *atomic.Bool) {
	for swallow.Load() {
		select {
		case <-l.life.Done():
			return
		case <-time.After(linkPause):
		}
	}
}

// linkPause is the time between two checks whether the link is whole again.
const linkPause = 10 * time.Millisecond
