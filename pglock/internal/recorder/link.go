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

// link is one connection, for one use at a time. It is dialled when it is needed, and closed when it has not been used
// for a while.
type link struct {
	dialer *wire.Dialer
	turn   chan struct{} // has room while no caller uses the connection
	closed atomic.Bool

	// Of the owner of turn:
	conn *pgx.Conn
	idle *time.Timer
}

func newLink(dialer *wire.Dialer) *link {
	l := &link{dialer: dialer, turn: make(chan struct{}, 1)}
	l.idle = time.AfterFunc(idleFor, l.rest)
	return l
}

// do calls use with the connection, and again with a new one if a kept one turns out to have ended before anything was
// sent.
func (l *link) do(ctx context.Context, use func(*pgx.Conn) error) error {
	select {
	case l.turn <- struct{}{}:
		defer l.leave()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	err := l.try(ctx, use)
	if err != nil && pgconn.SafeToRetry(err) && ctx.Err() == nil {
		err = l.try(ctx, use)
	}
	return wire.Classify(err)
}

// try runs under the turn.
func (l *link) try(ctx context.Context, use func(*pgx.Conn) error) (err error) {
	if l.closed.Load() {
		return driver.ErrClosed
	}
	if l.conn == nil || l.conn.IsClosed() {
		if l.conn, err = l.dialer.Connect(ctx, func(*pgx.ConnConfig) {}); err != nil {
			return err
		}
	}
	if err = use(l.conn); err != nil {
		l.hangUp()
	}
	return err
}

// leave gives the turn to the next caller. A close that found it taken has left the connection to its owner.
func (l *link) leave() {
	l.idle.Reset(idleFor)
	<-l.turn
	if l.closed.Load() {
		l.rest()
	}
}

// rest closes the connection if it is not used.
func (l *link) rest() {
	select {
	case l.turn <- struct{}{}:
		l.hangUp()
		<-l.turn
	default:
	}
}

// hangUp runs under the turn.
func (l *link) hangUp() {
	if l.conn != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = l.conn.Close(ctx) // it closes the socket in any case
		l.conn = nil
	}
}

// close ends the connection; if it is in use, it ends afterwards.
func (l *link) close() {
	l.closed.Store(true)
	l.rest()
}

const idleFor = 30 * time.Second // after which the connection is closed
