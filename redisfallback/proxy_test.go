package redisfallback_test

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// proxy forwards connections to a server until swallow is called: then they stay open, and nothing comes through.
type proxy struct {
	listener net.Listener
	target   string
	hole     atomic.Bool
	threads  sync.WaitGroup

	mu     sync.Mutex
	closed bool
	conns  []net.Conn
}

func newProxy(t testing.TB, target string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: listener, target: target}
	p.threads.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

func (p *proxy) swallow() { p.hole.Store(true) }

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		closed := p.closed
		p.conns = append(p.conns, client, server)
		p.mu.Unlock()
		if closed { // meanwhile
			_, _ = client.Close(), server.Close()
			return
		}
		p.threads.Go(func() { p.forward(client, server) })
		p.threads.Go(func() { p.forward(server, client) })
	}
}

func (p *proxy) forward(to, from net.Conn) {
	buffer := make([]byte, 4096)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			if !p.hole.Load() {
				_ = to.Close()
			}
			return
		}
		out := io.Writer(to)
		if p.hole.Load() {
			out = io.Discard
		}
		if _, err := out.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func (p *proxy) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.closed = true
	for _, conn := range p.conns {
		_ = conn.Close()
	}
	p.mu.Unlock()
	p.threads.Wait()
}
