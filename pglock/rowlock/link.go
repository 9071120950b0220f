package rowlock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/appname"
	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/internal/trust"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/records"
)

// link is some connections to the server, each for one transaction at a time. They are dialled when they are needed.
type link struct {
	dialer      *dialer
	looksFresh  time.Duration // a connection that was used so recently is used without a ping
	open, fresh chan *slot    // those that are not in use, with a connection and without
	doubted     atomic.Int64  // when a connection was found to have ended: the others may have, too
	closed      atomic.Bool
}

type slot struct {
	conn *pgx.Conn // nil: to be dialled
	used driver.Instant
}

// dialer knows how to connect.
type dialer struct {
	config        *pgx.ConnConfig
	beforeConnect func(context.Context, *pgx.ConnConfig) error
	trust         trust.Checker
	owners        []string // roles that may own the schema
	application   string
}

func newDialer(pool *pgxpool.Config) *dialer {
	c := pool.ConnConfig.Copy()
	c.Tracer, c.AfterConnect, c.OnNotification = nil, nil, func(*pgconn.PgConn, *pgconn.Notification) {} // else pgx collects them
	c.OnNotice = noticed
	c.DefaultQueryExecMode = pgx.QueryExecModeExec
	c.StatementCacheCapacity, c.DescriptionCacheCapacity = 0, 0
	c.RuntimeParams["client_encoding"] = "UTF8" // which the texts of this package need, and poolers know
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = connectTimeout
	}
	return &dialer{config: c, beforeConnect: pool.BeforeConnect}
}

// name sets the application_name of the sessions, which is also the holder's.
func (d *dialer) name(chosen string) {
	own := appname.Of(chosen, d.config.RuntimeParams["application_name"])
	d.config.RuntimeParams["application_name"] = own
	d.application, _ = appname.Split(own)
}

func (d *dialer) newLink(connections int) *link {
	l := &link{dialer: d, looksFresh: looksFresh, open: make(chan *slot, connections), fresh: make(chan *slot, connections)}
	for range connections {
		l.fresh <- &slot{}
	}
	return l
}

// take returns a slot that is not in use, if possible one that has a connection.
func (l *link) take(ctx context.Context) (*slot, error) {
	select {
	case s := <-l.open:
		return s, nil
	default:
	}
	select {
	case s := <-l.open:
		return s, nil
	case s := <-l.fresh:
		return s, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (l *link) giveBack(s *slot) {
	if s.conn != nil {
		l.open <- s
	} else {
		l.fresh <- s
	}
}

// noticed notes that the server has not waited for a synchronous standby. The text depends on lc_messages.
func noticed(pg *pgconn.PgConn, n *pgconn.Notice) {
	if n.Routine == "SyncRepWaitForLSN" {
		pg.CustomData()[unconfirmed] = true
	}
}

const unconfirmed = "pglock.unconfirmed"

// do runs one statement as a transaction of its own. The error is an *[unknownError] if the transaction may have been
// committed, or may still be; after any other error it has had no effect.
func (l *link) do(ctx context.Context, use func(context.Context, *lockdb.Queries) error) error {
	s, err := l.take(ctx)
	if err != nil {
		return fmt.Errorf("%w: all connections for locks are busy: %w", driver.ErrUnavailable, err)
	}
	defer l.giveBack(s)
	warned, err := l.try(ctx, s, use)
	if pgconn.SafeToRetry(err) && ctx.Err() == nil { // the connection had died
		s.discard()
		warned, err = l.try(ctx, s, use)
	}
	switch {
	case err == nil && warned:
		return &unknownError{fmt.Errorf("%w: the server has committed without its synchronous standby, so that a failover may "+
			"forget it", driver.ErrUnavailable)}
	case err == nil || s.conn == nil:
		return err
	case refused(err):
		l.rollBack(ctx, s)
		return classify(ctx, err)
	}
	s.discard()
	l.doubted.Store(int64(driver.Now()))
	return &unknownError{classify(ctx, err)}
}

// again is do for a statement that may be repeated: a session may have ended unnoticed.
func (l *link) again(ctx context.Context, use func(context.Context, *lockdb.Queries) error) error {
	err := l.do(ctx, use)
	if isUnknown(err) && ctx.Err() == nil {
		err = l.do(ctx, use)
	}
	return err
}

// try runs the statement once. It reports whether the server has warned that the commit is not durable.
func (l *link) try(ctx context.Context, s *slot, use func(context.Context, *lockdb.Queries) error) (warned bool, err error) {
	if err := l.ready(ctx, s); err != nil {
		return false, err
	}
	notes := s.conn.PgConn().CustomData()
	delete(notes, unconfirmed)
	g := records.Guarded{DB: s.conn, Trust: &l.dialer.trust, Owners: l.dialer.owners, ReadCommitted: true}
	err = use(ctx, g.Queries())
	_, warned = notes[unconfirmed]
	s.used = driver.Now()
	return warned, err
}

// ready makes the slot's connection ready for use.
func (l *link) ready(ctx context.Context, s *slot) error {
	if l.closed.Load() {
		return driver.ErrClosed
	}
	if s.conn != nil && (s.conn.IsClosed() || l.doubts(s) && !s.answers(ctx)) {
		s.discard()
	}
	if s.conn != nil {
		return nil
	}
	conn, err := l.dialer.dial(ctx)
	if err != nil {
		return err
	}
	s.conn = conn
	return nil
}

// doubts reports whether a connection must be pinged before its use.
func (l *link) doubts(s *slot) bool {
	return driver.Now().Sub(s.used) > l.looksFresh || int64(s.used) <= l.doubted.Load()
}

// answers reports whether the server answers on a connection that was not used for a while. It leaves half of the time
// to dial another one.
func (s *slot) answers(ctx context.Context) bool {
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/2)
		defer cancel()
	}
	return s.conn.Ping(ctx) == nil
}

// errNoCancel keeps pgx from asking the server to cancel the statement of a connection that it closes. No call needs that:
// the settlement waits for a statement that runs, and undoes it. PgBouncer 1.18 can end when such a request is late.
var errNoCancel = errors.New("no cancel requests")

func (d *dialer) dial(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.config.ConnectTimeout)
	defer cancel()
	c := d.config.Copy()
	if d.beforeConnect != nil {
		if err := d.beforeConnect(ctx, c); err != nil {
			return nil, fmt.Errorf("%w: BeforeConnect: %w", driver.ErrUnavailable, err)
		}
	}
	var connected atomic.Bool
	dial := c.DialFunc
	c.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		if connected.Load() {
			return nil, errNoCancel
		}
		return dial(ctx, network, address)
	}
	conn, err := pgx.ConnectConfig(ctx, c)
	if err != nil {
		return nil, sqlstate.ExplainOwn(err)
	}
	connected.Store(true)
	return conn, nil
}

// rollBack ends a transaction that the server has aborted.
func (l *link) rollBack(ctx context.Context, s *slot) {
	if s.conn.IsClosed() || s.conn.PgConn().TxStatus() == 'I' {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollBackWithin)
	defer cancel()
	if err := lockdb.New(s.conn).Rollback(ctx); err != nil {
		s.discard()
	}
}

// discard closes the connection without waiting for the server.
func (s *slot) discard() {
	if s.conn != nil {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = s.conn.Close(ctx) // it closes the socket in any case
		s.conn = nil
	}
}

// close closes the connections that are not in use now, and has the others closed by their users.
func (l *link) close(ctx context.Context) {
	l.closed.Store(true)
	for range cap(l.open) {
		s, err := l.take(ctx)
		if err != nil {
			return
		}
		defer l.giveBack(s)
		if s.conn != nil {
			_ = s.conn.Close(ctx) // it closes the socket in any case
			s.conn = nil
		}
	}
}

// unknownError says that a transaction may have been committed.
type unknownError struct{ err error }

func (e *unknownError) Error() string { return e.err.Error() }
func (e *unknownError) Unwrap() error { return e.err }

func isUnknown(err error) bool {
	_, unknown := errors.AsType[*unknownError](err)
	return unknown
}

// refused reports whether the server has refused the transaction for certain, or was not asked. A fatal error may
// come after the commit.
func refused(err error) bool {
	if server := sqlstate.Refusal(err); server.Code != "" {
		return server.SeverityUnlocalized == "ERROR"
	}
	return pgconn.SafeToRetry(err) || errors.Is(err, driver.ErrUntrusted) || errors.Is(err, driver.ErrSchemaMissing) ||
		errors.Is(err, trust.ErrUnknownRole)
}

// classify makes err match the sentinels of package driver.
func classify(ctx context.Context, err error) error {
	if errors.Is(err, trust.ErrUnknownRole) {
		return err
	}
	if sqlstate.Of(err) == featureNotSupported {
		return fmt.Errorf("%w: %w", driver.ErrStandby, err) // BEGIN READ WRITE says so there
	}
	if err = sqlstate.ExplainOwn(trust.Explain(err)); ctx.Err() != nil && !errors.Is(err, driver.ErrUnavailable) {
		err = fmt.Errorf("%w: no answer in time: %w", driver.ErrUnavailable, err)
	}
	return err
}

const (
	connectTimeout      = 10 * time.Second
	rollBackWithin      = time.Second
	looksFresh          = time.Second
	featureNotSupported = "0A000"
)
