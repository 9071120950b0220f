package testenv

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

// Link is a network between clients and servers. Each connection through it is two TCP connections on loopback with a
// forwarder between them, which delays data. While it is cut it keeps data back, and the end of a connection too, and closes
// nothing; both arrive when it is whole again, as TCP sends again what has not arrived.
//
// A Link may be used concurrently.
type Link struct {
	delay    time.Duration
	up, down atomic.Bool // cut: to the server, to the client

	life    context.Context // ends with Close
	end     context.CancelFunc
	mu      sync.Mutex // held while the fields below grow, and by end
	conns   []net.Conn
	running sync.WaitGroup
}

// NewLink returns a network on which data takes delay in each direction.
func NewLink(delay time.Duration) *Link {
	l := &Link{delay: delay}
	l.life, l.end = context.WithCancel(context.Background())
	return l
}

// Dial connects to address. While the link is cut it waits.
func (l *Link) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if err := l.awaitWhole(ctx, &l.up, &l.down); err != nil {
		return nil, err
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
// closed when the test ends. Clients can connect even while it is cut.
func NewProxy(t testing.TB, target string) (*Link, *net.TCPAddr) {
	t.Helper()
	return NewMovingProxy(t, func() string { return target })
}

// NewMovingProxy is [NewProxy] whose later connections lead to what target returns then. Connections end at once
// while that is empty.
func NewMovingProxy(t testing.TB, target func() string) (*Link, *net.TCPAddr) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
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
	must.Succeed(t, err)
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
	l.running.Go(func() { l.forward(server, client, &l.up) })
	l.running.Go(func() { l.forward(client, server, &l.down) })
	l.conns = append(l.conns, server, client)
	return true
}

// Drop ends the connections that there are, and what is kept back on them is lost.
func (l *Link) Drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, conn := range l.conns {
		_ = conn.Close()
	}
	l.conns = nil
}

// Close ends all connections, and returns when no goroutine of the link is left. It may be called twice.
func (l *Link) Close() {
	l.mu.Lock()
	l.end()
	l.mu.Unlock()
	l.Drop()
	l.running.Wait()
}

// Cut sets whether the link keeps back what goes up, to the server, and down, to the client.
func (l *Link) Cut(up, down bool) {
	l.up.Store(up)
	l.down.Store(down)
}

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

// forward passes on what arrives until the source ends.
func (l *Link) forward(to, from net.Conn, cut *atomic.Bool) {
	packets := make(chan packet, 1024)
	var writer sync.WaitGroup
	writer.Go(func() {
		for p := range packets {
			time.Sleep(time.Until(p.due))
			if l.awaitWhole(l.life, cut) == nil {
				_, _ = to.Write(p.data) // the reader notices the end
			}
		}
		_ = l.awaitWhole(l.life, cut)
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

// awaitWhole waits for the directions that are cut. It returns an error if ctx or the link has ended.
func (l *Link) awaitWhole(ctx context.Context, directions ...*atomic.Bool) error {
	for _, cut := range directions {
		for cut.Load() {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-l.life.Done():
				return net.ErrClosed
			case <-time.After(linkPause):
			}
		}
	}
	return nil
}

// linkPause is the time between two checks whether the link is whole again.
const linkPause = 10 * time.Millisecond
