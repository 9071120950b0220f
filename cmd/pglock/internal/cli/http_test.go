package cli

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

// Clients that open connections and say nothing take no more than the server gives them, and give way to others when they go.
func TestServeHTTPBoundsConnections(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- serveHTTP(ctx, l, http.NotFoundHandler(), nil) }()
	defer func() {
		cancel()
		must.Succeed(t, <-served)
	}()
	var open []net.Conn
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", l.Addr().String())
		must.Succeed(t, err)
		open = append(open, conn)
		return conn
	}
	for range maxConnections {
		dial()
	}
	surplus := dial()
	must.Succeed(t, surplus.SetReadDeadline(time.Now().Add(4*time.Second))) // before those without a request are closed
	if _, err := surplus.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("one connection too many: %v", err)
	}
	for _, conn := range open {
		must.Succeed(t, conn.Close())
	}
	testenv.WaitUntil(t, "a request is answered", func() bool {
		response, err := http.Get("http://" + l.Addr().String())
		return err == nil && response.Body.Close() == nil
	})
}
