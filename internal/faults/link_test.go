package faults_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A link is the network between a client and its servers: every connection through it is two TCP connections on
// loopback with a forwarder between them, which delays what passes, and can swallow it without closing anything.
type link struct {
	delay    time.Duration
	up, down atomic.Bool // swallow what goes to the server, to the client

	mu      sync.Mutex // held while running grows, and while ended is closed
	ended   chan struct{}
	running sync.WaitGroup
}

func newLink(delay time.Duration) *link { return &link{delay: delay, ended: make(chan struct{})} }

// directly connects without a link.
func directly(ctx context.Context, network, address string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, network, address)
}

// dial connects through the link, which takes until the link is whole again.
func (l *link) dial(ctx context.Context, network, address string) (net.Conn, error) {
	for l.up.Load() || l.down.Load() {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-l.ended:
			return nil, net.ErrClosed
		case <-time.After(10 * time.Millisecond):
		}
	}
	server, err := directly(ctx, network, address)
	if err != nil {
		return nil, err
	}
	client, far, err := pair(ctx)
	if err != nil {
		return nil, errors.Join(err, server.Close())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hasEnded() {
		return nil, errors.Join(net.ErrClosed, server.Close(), client.Close(), far.Close())
	}
	l.running.Go(func() { l.forward(server, far, &l.up) })
	l.running.Go(func() { l.forward(far, server, &l.down) })
	l.running.Go(func() {
		<-l.ended
		_, _ = far.Close(), server.Close()
	})
	return client, nil
}

func (l *link) close() {
	l.mu.Lock()
	close(l.ended)
	l.mu.Unlock()
	l.running.Wait()
}

func (l *link) hasEnded() bool {
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
}

func (l *link) cut(up, down bool) {
	l.up.Store(up)
	l.down.Store(down)
}

// pair returns the two ends of a TCP connection.
func pair(ctx context.Context) (near, far net.Conn, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, listener.Close()) }()
	near, err = new(net.Dialer).DialContext(ctx, "tcp", listener.Addr().String())
	if err != nil {
		return nil, nil, err
	}
	for {
		far, err = listener.Accept()
		if err != nil {
			return nil, nil, errors.Join(err, near.Close())
		}
		if far.RemoteAddr().String() == near.LocalAddr().String() {
			return near, far, nil
		}
		_ = far.Close() // another program's
	}
}

type packet struct {
	due  time.Time
	data []byte
}

// forward passes on what comes until the source ends. While the link swallows, the other side does not learn of that.
func (l *link) forward(to, from net.Conn, swallow *atomic.Bool) {
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

// awaitWhole returns when nothing is swallowed any more, or when the link has ended.
func (l *link) awaitWhole(swallow *atomic.Bool) {
	for swallow.Load() {
		select {
		case <-l.ended:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}
