// Package places bounds how many connections a server of HTTP has open, so that clients which only occupy connections
// cannot keep others out.
package places

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
	"sync"
	"time"
)

// Listener accepts connections for a number of places. When all are taken, a new connection takes the place of the
// oldest one that is not kept, which is closed: idle, slow, or in a TLS handshake. If all are
// kept, the oldest of them is closed.
//
// It has to be below TLS: to close a connection of TLS, one may wait for its client.
type Listener struct {
	net.Listener
	places int

	mu   sync.Mutex
	open []*conn // the oldest first
}

// Limit returns a listener with n places.
func Limit(l net.Listener, n int) *Listener { return &Listener{Listener: l, places: n} }

type conn struct {
	net.Conn
	listener *Listener
	kept     int // how often; guarded by the listener's mu
}

// Accept accepts the next connection.
func (l *Listener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: accepted, listener: l}
	if superseded := l.enter(c); superseded != nil {
		_ = superseded.Conn.Close() // it may have ended
	}
	return c, nil
}

// enter returns the connection whose place the new one takes, if any. Against a request that is about to keep that
// connection, whichever locks first wins: a closed connection fails its request, and the client repeats it.
func (l *Listener) enter(c *conn) (superseded *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open) >= l.places {
		superseded = l.open[0]
		for _, other := range l.open {
			if other.kept == 0 {
				superseded = other
				break
			}
		}
		l.leaveLocked(superseded)
	}
	l.open = append(l.open, c)
	return superseded
}

func (l *Listener) leaveLocked(c *conn) {
	for i, other := range l.open {
		if other == c {
			l.open = append(l.open[:i], l.open[i+1:]...)
			return
		}
	}
}

func (c *conn) Close() error {
	c.listener.mu.Lock()
	c.listener.leaveLocked(c)
	c.listener.mu.Unlock()
	return c.Conn.Close()
}

type connKey struct{}

// Context is for http.Server.ConnContext, so that Keep knows the connection of a request.
func Context(ctx context.Context, c net.Conn) context.Context {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	return context.WithValue(ctx, connKey{}, c)
}

// Keep has the connection of a request closed only after those that are not kept, until release is called. The context
// is the request's.
func Keep(ctx context.Context) (release func()) {
	c, ok := ctx.Value(connKey{}).(*conn)
	if !ok {
		return func() {}
	}
	c.keep(1)
	return sync.OnceFunc(func() { c.keep(-1) })
}

func (c *conn) keep(n int) {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	c.kept += n
}

// How long a client may take before it is disconnected, and how long requests may take at the end.
const (
	headerTimeout   = 5 * time.Second
	readTimeout     = 10 * time.Second
	writeTimeout    = 30 * time.Second
	idleTimeout     = 2 * time.Minute
	shutdownTimeout = 5 * time.Second
	maxHeaderBytes  = 16 << 10
)

// Serve serves until ctx ends, and then waits a while for running requests. It closes the listener. The end of ctx is not an
// error. It has n places, and TLS unless the configuration is nil. Failed handshakes, of which any client can cause any
// number, are not logged.
func Serve(ctx context.Context, l net.Listener, handler http.Handler, n int, secure *tls.Config) error {
	server := &http.Server{
		Handler:           handler,
		ConnContext:       Context,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          log.New(quiet{os.Stderr}, "", 0),
	}
	if l = Limit(l, n); secure != nil {
		l = tls.NewListener(l, secure)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
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

type quiet struct{ io.Writer }

func (q quiet) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("TLS handshake error")) {
		return len(line), nil
	}
	return q.Writer.Write(line)
}
