// Package recorder writes the data that outlives locks into schema pglock: the names of keys, for the monitor, and
// the runs of scheduled jobs. It uses separate connections, since a commit that hangs (synchronous replication) must
// never hold up a session that holds locks.
package recorder

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/wire"
)

// link is one connection, for one caller at a time. It is dialled when it is needed, and closed when it has not been used
// for a while.
type link struct {
	dialer *wire.Dialer
	busy   chan struct{} // has room while no caller uses the connection
	closed atomic.Bool

	// Guarded by busy:
	conn *pgx.Conn
	idle *time.Timer
}

func newLink(dialer *wire.Dialer) *link {
	l := &link{dialer: dialer, busy: make(chan struct{}, 1)}
	l.idle = time.AfterFunc(idleFor, l.closeIdle)
	return l
}

// do calls use with the connection, and again with a new one if a kept one turns out to have ended before anything was
// sent.
func (l *link) do(ctx context.Context, use func(*pgx.Conn) error) error {
	select {
	case l.busy <- struct{}{}:
		defer l.release()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	err := l.tryLocked(ctx, use)
	if err != nil && pgconn.SafeToRetry(err) && ctx.Err() == nil {
		err = l.tryLocked(ctx, use)
	}
	return wire.Classify(err)
}

// tryLocked calls use once, and connects before that if necessary.
func (l *link) tryLocked(ctx context.Context, use func(*pgx.Conn) error) (err error) {
	if l.closed.Load() {
		return driver.ErrClosed
	}
	if l.conn == nil || l.conn.IsClosed() {
		if l.conn, err = l.dialer.Connect(ctx, func(*pgx.ConnConfig) {}); err != nil {
			return err
		}
	}
	if err = use(l.conn); err != nil {
		l.disconnectLocked()
	}
	return err
}

// release lets the next caller use the connection. If the link was closed meanwhile it closes the connection.
func (l *link) release() {
	l.idle.Reset(idleFor)
	<-l.busy
	if l.closed.Load() {
		l.closeIdle()
	}
}

// closeIdle closes the connection if it is not in use.
func (l *link) closeIdle() {
	select {
	case l.busy <- struct{}{}:
		l.disconnectLocked()
		<-l.busy
	default:
	}
}

// disconnectLocked closes the connection if there is one.
func (l *link) disconnectLocked() {
	if l.conn != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = l.conn.Close(ctx) // it closes the socket in any case
		l.conn = nil
	}
}

// close ends the connection; if a caller uses it, it ends after that.
func (l *link) close() {
	l.closed.Store(true)
	l.closeIdle()
}

const idleFor = 30 * time.Second // after which the connection is closed
