// Package recorder has the connections of a backend for all but locks: on them it records the names of keys and the runs
// of jobs, draws fencing tokens, and publishes the waits of this process. A commit that hangs (synchronous replication)
// must never hold up a session that holds locks.
package recorder

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/wire"
)

// link is one connection, for one caller at a time. It is dialled when it is needed, and closed when it has not been used
// for a while.
//
// No call waits without a bound for a server that says nothing: dialling takes as long as [wire.Dialer.Connect] allows,
// and each use as long as [link.within]. A statement that waits for a row ends well before that, so that others get
// their turn, and is sent again: the answer shows that the server lives.
type link struct {
	dialer *wire.Dialer
	busy   chan struct{} // has room while no caller uses the connection
	closed atomic.Bool

	// Guarded by busy:
	conn        *pgx.Conn
	unconfirmed bool // the server has warned that a commit may not have reached the standby
	idle        *time.Timer
}

func newLink(dialer *wire.Dialer) *link {
	l := &link{dialer: dialer, busy: make(chan struct{}, 1)}
	l.idle = time.AfterFunc(idleFor, l.closeIdle)
	return l
}

// use sends something on the connection and reads the answer. It may be called again after an error, even if the server
// has done what was sent the first time.
type use func(context.Context, *pgx.Conn) error

// do calls use. If the connection ends or falls silent, it calls use again, once, on a new one: a connection that was
// kept may have died long ago, or lead to a server that is no longer there.
func (l *link) do(ctx context.Context, use use) error {
	for {
		err := l.inTurn(ctx, use)
		if sqlstate.Of(err) != sqlstate.LockNotAvailable || ctx.Err() != nil {
			return wire.Classify(err)
		}
	}
}

// inTurn calls use when the callers before it have had their turns. These are bounded, but there may be many, so the wait
// has a bound too.
func (l *link) inTurn(ctx context.Context, use use) error {
	queued := time.NewTimer(queueFor * l.within())
	defer queued.Stop()
	select {
	case l.busy <- struct{}{}:
		defer l.release()
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-queued.C:
		return fmt.Errorf("%w: for %v the connection for records has been busy with other records", driver.ErrUnavailable, queueFor*l.within())
	}
	again, err := l.tryLocked(ctx, use)
	if again && ctx.Err() == nil {
		_, err = l.tryLocked(ctx, use)
	}
	return err
}

// tryLocked calls use once, and connects before that if necessary. It reports whether the connection has ended.
func (l *link) tryLocked(ctx context.Context, use use) (ended bool, err error) {
	if l.closed.Load() {
		return false, driver.ErrClosed
	}
	if l.conn == nil || l.conn.IsClosed() {
		if err = l.connectLocked(ctx); err != nil {
			return false, err
		}
	}
	l.unconfirmed = false
	bounded, cancel := context.WithTimeout(ctx, l.within())
	defer cancel()
	switch err = use(bounded, l.conn); {
	case err == nil && l.unconfirmed:
		return false, fmt.Errorf("%w: the transaction was committed, but the server gave up waiting for a synchronous standby, "+
			"so a failover may lose it", driver.ErrUnavailable)
	case err == nil:
		return false, nil
	case bounded.Err() != nil && ctx.Err() == nil: // the deadline is not the caller's
		err = fmt.Errorf("%w within %v", errSilent, l.within())
	}
	ended = l.conn.IsClosed()
	if sqlstate.Of(err) != sqlstate.LockNotAvailable || l.conn.PgConn().TxStatus() != 'I' {
		l.disconnectLocked()
	}
	return ended, err
}

// within is how long an answer may take: the lease, after which locks on a silent connection are lost too, or the
// connect timeout, if that is shorter.
func (l *link) within() time.Duration { return min(l.dialer.Lease, l.dialer.Conn.ConnectTimeout) }

// connectLocked dials.
func (l *link) connectLocked(ctx context.Context) (err error) {
	if l.conn, err = l.dialer.Connect(ctx, l.adapt); err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, l.within())
	defer cancel()
	err = lockdb.New(l.conn).SetUpRecords(bounded, lockdb.SetUpRecordsParams{
		IdleMs: milliseconds(2 * idleFor), LockMs: milliseconds(max(l.within()/4, time.Millisecond)),
	})
	if err != nil {
		l.disconnectLocked()
		return wire.NotOpened("set up the connection for records", err)
	}
	return nil
}

// adapt makes the server's warnings known.
func (l *link) adapt(c *pgx.ConnConfig) {
	c.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		l.unconfirmed = l.unconfirmed || n.Routine == "SyncRepWaitForLSN" // the text depends on lc_messages
	}
}

var errSilent = fmt.Errorf("%w: no answer on the connection for records", driver.ErrUnavailable)

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

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

// close ends the connection; one that is in use ends after the call.
func (l *link) close() {
	l.closed.Store(true)
	l.closeIdle()
}

const (
	idleFor  = 30 * time.Second // after which the connection is closed
	queueFor = 6                // so many times within: two turns of a caller to whom everything bad happens
)
