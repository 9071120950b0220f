package redisfallback

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// direct is a connection over which a caller sends its call itself and waits for the answer, which saves a lone caller
// the switch to another goroutine and back. When its context ends, the caller leaves at once. The call continues
// until the server has answered or its time is over. Only then is its undo sent, since on another connection it could
// overtake the call.
// If the answer arrives as the context ends, it is used if it has been read by then.
type direct struct {
	client *redis.Client

	mu    sync.Mutex
	conn  *directConn    // that of the current round trip, once it has been written to
	ctx   *pooledTimeout // of the current round trip, or nil
	round uint64         // the number of the current round trip
	left  bool           // its caller has left
}

func newDirect(of *redis.Client, timeout time.Duration) *direct {
	d := &direct{}
	opts := ownOptions(of)
	dial := opts.Dialer
	opts.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return d.dialled(conn), nil
	}
	if opts.ReadTimeout <= 0 || opts.ReadTimeout > timeout {
		opts.ReadTimeout = timeout
	}
	d.client = redis.NewClient(opts)
	return d
}

func (d *direct) dialled(conn net.Conn) net.Conn {
	c := &directConn{Conn: conn, of: d}
	if raw, ok := conn.(syscall.Conn); ok { // the client uses it to check that the connection is alive
		return struct {
			*directConn
			syscall.Conn
		}{c, raw}
	}
	return c
}

// uses notes which connection the current round trip uses. The client may have others, which it began to dial for callers
// who left meanwhile.
func (d *direct) uses(c *directConn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.conn = c
	if d.left {
		c.leave()
	}
}

// process sends a command, and reports whether the caller left before it was answered.
func (d *direct) process(ctx context.Context, timeout time.Duration, cmd *command) (left bool) {
	p := timeoutAfter(timeout)
	defer p.done()
	d.mu.Lock()
	d.round++
	round := d.round
	d.ctx, d.left, d.conn = p, false, nil
	d.mu.Unlock()
	if ctx.Done() != nil {
		stop := context.AfterFunc(ctx, func() { d.leave(round) })
		defer stop()
	}
	_ = d.client.Process(p, cmd) // the error is also the command's
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ctx = nil
	if d.left && answered(cmd.Err()) && d.conn != nil { // its client can't read from it any more, nor close it
		_ = d.conn.Conn.Close()
		d.conn = nil
	}
	return d.left && !answered(cmd.Err())
}

// leave makes the caller of a round trip return, unless it has already.
func (d *direct) leave(round uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ctx == nil || d.round != round {
		return
	}
	d.left = true
	d.ctx.interrupt()
	if d.conn != nil {
		d.conn.leave()
	}
}

// settle waits until the abandoned call has been answered or its time is over.
func (d *direct) settle(timeout time.Duration) {
	d.mu.Lock()
	conn := d.conn
	d.conn = nil
	d.mu.Unlock()
	if conn != nil {
		conn.settle(timeout)
	}
}

// directConn is a connection whose client can give up reading; settle then reads instead.
type directConn struct {
	net.Conn
	of   *direct
	owed atomic.Bool // nothing has been read since the last Write

	mu   sync.Mutex
	left bool
}

// Write implements [net.Conn].
func (c *directConn) Write(b []byte) (int, error) {
	c.of.uses(c)
	c.owed.Store(true)
	return c.Conn.Write(b)
}

// Read implements [net.Conn].
func (c *directConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.owed.Store(false)
	}
	return n, err
}

// leave makes the client stop reading for good.
func (c *directConn) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = true
	_ = c.Conn.SetReadDeadline(time.Unix(1, 0)) // if it fails the connection is closed, and reading has ended
}

// SetReadDeadline implements [net.Conn].
func (c *directConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left {
		return nil
	}
	return c.Conn.SetReadDeadline(t)
}

// SetDeadline implements [net.Conn].
func (c *directConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// Close implements [net.Conn]. After leave it does nothing: settle closes the connection.
func (c *directConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left {
		return nil
	}
	return c.Conn.Close()
}

// settle waits for any byte to arrive: the server executes a command before it begins to answer. If the last that was sent
// has been answered, the caller left before the command was sent, for example behind the handshake.
func (c *directConn) settle(timeout time.Duration) {
	if c.owed.Load() && c.Conn.SetReadDeadline(time.Now().Add(timeout)) == nil {
		_, _ = c.Conn.Read(make([]byte, 1)) // an error ends the wait as well
	}
	_ = c.Conn.Close() // an error changes nothing
}
