package cli

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

// maxConnections is how many connections are served at once.
const maxConnections = 256

// serveHTTP serves until ctx ends, and then waits a while for running requests. It closes the listener. The end of ctx is not an
// error. Clients that only occupy connections lose them after some seconds, and beyond maxConnections there are none.
func serveHTTP(ctx context.Context, l net.Listener, handler http.Handler, secure *tls.Config) error {
	const header, read, write, idle, shutdown = 5 * time.Second, 10 * time.Second, 30 * time.Second, 30 * time.Second, 5 * time.Second
	server := &http.Server{Handler: handler, ReadHeaderTimeout: header, ReadTimeout: read, WriteTimeout: write, IdleTimeout: idle,
		ErrorLog: log.New(quiet{os.Stderr}, "", 0)}
	var open atomic.Int64
	server.ConnState = func(conn net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			if open.Add(1) > maxConnections {
				_ = conn.Close() // the server sees that, and reports it as closed
			}
		case http.StateClosed, http.StateHijacked:
			open.Add(-1)
		}
	}
	if secure != nil {
		l = tls.NewListener(l, secure)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdown)
	defer cancel()
	err := server.Shutdown(patience)
	if errors.Is(err, context.DeadlineExceeded) { // a connection is slow
		err = server.Close()
	}
	if served := <-served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// quiet leaves out failed handshakes, of which any client can cause any number.
type quiet struct{ io.Writer }

func (q quiet) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("TLS handshake error")) {
		return len(line), nil
	}
	return q.Writer.Write(line)
}
