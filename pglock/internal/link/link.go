// Package link has the connections of both backends for statements that are transactions of their own: all those on
// locks in rows, and for locks of sessions all others, so that a commit that hangs (synchronous replication) never holds
// up a session that holds locks. Nothing depends on a session, so that it passes poolers of transactions.
package link

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/puddle/v2"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/records"
)

// Config says how a link works.
type Config struct {
	Pool        *pgxpool.Config // see [Pool]
	Connections int32           // at most
	Owners      []string        // roles that may own the schema
	Within      time.Duration   // how long an answer may take
}

// Link is some connections to the server, each for one transaction at a time. They are dialled when they are needed, and closed
// when they have not been used for a while.
//
// No call waits without a bound for a server that says nothing: dialling takes as long as [Before] allows, and each answer as
// long as [Config.Within]. A connection that was kept may have died long ago, or lead to a server that is no longer there:
// when one ends or falls silent, none that there is then is used again.
type Link struct {
	config Config
	pool   *pgxpool.Pool
}

// New returns a link that has not dialled yet.
func New(c Config) (*Link, error) {
	own := c.Pool.Copy()
	own.MaxConns = c.Connections
	pool, err := pgxpool.NewWithConfig(context.Background(), own)
	return &Link{config: c, pool: pool}, err
}

// Use sends one statement as a transaction of its own, and reads the answer.
type Use func(context.Context, *lockdb.Queries) error

// Do calls use. The error [IsUnknown] if the transaction may have been committed, or may still be; after any other error
// it has had no effect, and no statement is under way.
func (l *Link) Do(ctx context.Context, use Use) error { return l.repeat(ctx, l.guarded(use)) }

// Ask is [Link.Do] for a statement with an answer that may be repeated, and is, once, if the answer is lost.
func Ask[T any](ctx context.Context, l *Link, use func(context.Context, *lockdb.Queries) (T, error)) (answer T, err error) {
	err = l.Raw(ctx, l.guarded(func(ctx context.Context, q *lockdb.Queries) (err error) {
		answer, err = use(ctx, q)
		return err
	}))
	return answer, err
}

// Raw is [Ask] for a statement that needs neither the schema nor a transaction.
func (l *Link) Raw(ctx context.Context, use func(context.Context, *pgx.Conn) error) error {
	err := l.repeat(ctx, use)
	if IsUnknown(err) && ctx.Err() == nil {
		err = l.repeat(ctx, use)
	}
	return err
}

func (l *Link) guarded(use Use) func(context.Context, *pgx.Conn) error {
	return func(ctx context.Context, conn *pgx.Conn) error {
		g := records.Guarded{DB: conn, Owners: l.config.Owners, Own: true}
		return use(ctx, g.Queries())
	}
}

// repeat calls use again, once, if the statement was not sent, since the connection had died, or not executed, since the schema
// was replaced: then over the same connection, if that is free. A statement that waits for a row gives its turn to others, and is
// sent again for as long as ctx allows: the answer shows that the server lives.
func (l *Link) repeat(ctx context.Context, use func(context.Context, *pgx.Conn) error) error {
	for again := false; ; {
		err := l.try(ctx, use)
		switch {
		case ctx.Err() != nil:
			return err
		case sqlstate.Of(err) == sqlstate.LockNotAvailable:
		case !again && (sqlstate.Unsent(err) || errors.Is(err, sqlstate.ErrReplaced)):
			again = true
		default:
			return err
		}
	}
}

// try calls use once.
func (l *Link) try(ctx context.Context, use func(context.Context, *pgx.Conn) error) error {
	c, err := l.acquire(ctx)
	if err != nil {
		return err
	}
	conn := c.Conn()
	defer func() {
		if conn.IsClosed() {
			c.Hijack() // pgx may take 15 s to close it, and the pool would count it as long
		} else {
			c.Release()
		}
	}()
	notes := conn.PgConn().CustomData()
	delete(notes, unconfirmed)
	bounded, cancel := context.WithTimeout(ctx, l.config.Within)
	defer cancel()
	err = use(bounded, conn)
	_, warned := notes[unconfirmed]
	switch {
	case err == nil && warned:
		return unknown{fmt.Errorf("%w: the server has committed without its synchronous standby, so that a failover may "+
			"forget it", driver.ErrUnavailable)}
	case err == nil:
		return nil
	case sqlstate.Of(err) == sqlstate.LockNotAvailable || errors.Is(classify(err), sqlstate.ErrReplaced):
		_ = lockdb.New(conn).Rollback(bounded)
		return classify(err)
	case refused(err):
		return classify(err) // if the transaction is still open, the pool closes the connection
	case ctx.Err() != nil:
		err = fmt.Errorf("%w: %w", ErrSilent, context.Cause(ctx))
	case bounded.Err() != nil: // the deadline is not the caller's
		err = fmt.Errorf("%w within %v", ErrSilent, l.config.Within)
	}
	l.pool.Reset() // a connection has ended: the others may have, too
	return unknown{classify(err)}
}

// acquire waits for the turns of callers before this one. These are bounded, but there may be many, so the wait has a bound too.
func (l *Link) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	bounded, cancel := context.WithTimeoutCause(ctx, queueFor*l.config.Within, errBusy)
	defer cancel()
	c, err := l.pool.Acquire(bounded)
	switch {
	case err == nil:
		return c, nil
	case errors.Is(err, puddle.ErrClosedPool):
		return nil, driver.ErrClosed
	case bounded.Err() != nil:
		return nil, fmt.Errorf("%w: no connection was free or dialled in time: %w", driver.ErrUnavailable, context.Cause(bounded))
	}
	return nil, sqlstate.ExplainOwn(err)
}

// queueFor is so many times within: two turns of a caller to whom everything bad happens.
const queueFor = 6

// ErrSilent is the error of a statement without an answer.
var ErrSilent = fmt.Errorf("%w: the server has not answered", driver.ErrUnavailable)

var errBusy = errors.New("the server is slow, or does not answer")

// Reset closes the connections; one that is in use after that.
func (l *Link) Reset() { l.pool.Reset() }

// Close closes the connections, and returns when the calls that use them have ended, or ctx has.
func (l *Link) Close(ctx context.Context) {
	closed := make(chan struct{})
	go func() { defer close(closed); l.pool.Close() }()
	select {
	case <-closed:
	case <-ctx.Done():
	}
}

// noticed notes that the server has not waited for a synchronous standby. The text depends on lc_messages.
func noticed(pg *pgconn.PgConn, n *pgconn.Notice) {
	if n.Routine == "SyncRepWaitForLSN" {
		pg.CustomData()[unconfirmed] = true
	}
}

const unconfirmed = "pglock.unconfirmed"

// IsUnknown reports whether err, of [Link.Do], says that a transaction may have been committed.
func IsUnknown(err error) bool { return errors.As(err, new(unknown)) }

type unknown struct{ error }

func (e unknown) Unwrap() error { return e.error }

// refused reports whether the server has refused the transaction for certain, or was not asked. A fatal error may
// come after the commit.
func refused(err error) bool {
	if server := sqlstate.Refusal(err); server.Code != "" {
		return server.SeverityUnlocalized == "ERROR"
	}
	return sqlstate.Unsent(err) || errors.Is(err, driver.ErrUntrusted) || errors.Is(err, driver.ErrSchemaMissing)
}

// classify makes err match the sentinels of package driver.
func classify(err error) error {
	if sqlstate.Of(err) == sqlstate.FeatureNotSupported {
		return fmt.Errorf("%w: %w", driver.ErrStandby, err) // BEGIN READ WRITE says so there
	}
	return sqlstate.ExplainOwn(err)
}
