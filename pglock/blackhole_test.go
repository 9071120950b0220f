package pglock_test

import (
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/testenv"
)

// blackHole is a TCP proxy on loopback that can swallow the data of either direction, without closing anything.
type blackHole struct {
	listener net.Listener
	target   string
	open     sync.WaitGroup
	ended    chan struct{}
	up, down atomic.Bool // swallow what goes to the server, to the client
}

func newBlackHole(t *testing.T, db *testenv.DB) *blackHole {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := db.Config(t).ConnConfig
	h := &blackHole{listener: listener, ended: make(chan struct{}), target: net.JoinHostPort(server.Host, strconv.Itoa(int(server.Port)))}
	h.open.Go(h.serve)
	t.Cleanup(func() {
		close(h.ended)
		_ = listener.Close()
		h.open.Wait()
	})
	return h
}

func (h *blackHole) config(t *testing.T, db *testenv.DB) *pgxpool.Config {
	t.Helper()
	cfg := db.Config(t)
	address := h.listener.Addr().(*net.TCPAddr)
	cfg.ConnConfig.Host, cfg.ConnConfig.Port, cfg.ConnConfig.Fallbacks = "127.0.0.1", uint16(address.Port), nil
	return cfg
}

func (h *blackHole) cut(up, down bool) {
	h.up.Store(up)
	h.down.Store(down)
}

func (h *blackHole) serve() {
	for {
		client, err := h.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", h.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		h.open.Go(func() { pass(server, client, &h.up) })
		h.open.Go(func() { pass(client, server, &h.down) })
		h.open.Go(func() {
			<-h.ended
			_, _ = client.Close(), server.Close()
		})
	}
}

// pass copies until the source ends. While it swallows, the end of the source is swallowed too, as a dead network does;
// the other socket is closed then only because nothing may outlive the test.
func pass(to, from net.Conn, swallow *atomic.Bool) {
	defer func() { _ = from.Close() }()
	buffer := make([]byte, 4096)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			if !swallow.Load() || err != io.EOF {
				_ = to.Close()
			}
			return
		}
		if swallow.Load() {
			continue
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}
