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

// dialer knows how to connect.
type dialer struct {
	pool        *pgxpool.Config
	owners      []string // roles that may own the schema
	application string
}

func newDialer(own *pgxpool.Config) *dialer {
	p := own.Copy()
	p.AfterConnect, p.AfterRelease, p.BeforeClose = nil, nil, nil
	p.PrepareConn = func(context.Context, *pgx.Conn) (bool, error) { return true, nil } // it also replaces BeforeAcquire
	p.MinConns, p.MinIdleConns, p.MaxConnLifetime, p.MaxConnLifetimeJitter = 0, 0, 0, 0
	p.MaxConnIdleTime, p.HealthCheckPeriod = 5*time.Minute, time.Minute
	c := p.ConnConfig
	c.Tracer, c.OnNotification = nil, func(*pgconn.PgConn, *pgconn.Notification) {} // else pgx collects them
	c.OnNotice = noticed
	c.DefaultQueryExecMode = pgx.QueryExecModeExec
	c.StatementCacheCapacity, c.DescriptionCacheCapacity = 0, 0
	c.RuntimeParams["client_encoding"] = "UTF8" // which the texts of this package need, and poolers know
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = connectTimeout
	}
	before := p.BeforeConnect
	p.BeforeConnect = func(ctx context.Context, c *pgx.ConnConfig) error {
		if before != nil {
			if err := before(ctx, c); err != nil {
				return fmt.Errorf("%w: BeforeConnect: %w", driver.ErrUnavailable, err)
			}
		}
		sendNoCancel(&c.Config)
		return nil
	}
	return &dialer{pool: p}
}

// sendNoCancel keeps pgx from asking the server to cancel the statement of a connection that it closes. No call needs that:
// the settlement waits for a statement that runs, and undoes it. PgBouncer 1.18 can end when such a request is late.
func sendNoCancel(c *pgconn.Config) {
	var connected atomic.Bool
	dial := c.DialFunc
	c.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		if connected.Load() {
			return nil, errors.New("no cancel requests")
		}
		return dial(ctx, network, address)
	}
	c.AfterConnect = func(context.Context, *pgconn.PgConn) error { connected.Store(true); return nil }
}

// name sets the application_name of the sessions, which is also the holder's.
func (d *dialer) name(chosen string) {
	params := d.pool.ConnConfig.RuntimeParams
	own := appname.Of(chosen, params["application_name"])
	params["application_name"] = own
	d.application, _ = appname.Split(own)
}

// link is some connections to the server, each for one transaction at a time. They are dialled when they are needed.
type link struct {
	dialer *dialer
	pool   *pgxpool.Pool
}

// newLink makes a link of so many connections. One that has not been used for fresh is pinged before its use.
func (d *dialer) newLink(connections int32, fresh, pingWithin time.Duration) (*link, error) {
	config := d.pool.Copy()
	config.MaxConns, config.PingTimeout = connections, pingWithin
	config.ShouldPing = func(_ context.Context, p pgxpool.ShouldPingParams) bool { return p.IdleDuration > fresh }
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	return &link{d, pool}, err
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
	err := l.try(ctx, use)
	if sqlstate.Unsent(err) && ctx.Err() == nil { // the connection had died
		err = l.try(ctx, use)
	}
	return err
}

// again is do for a statement that may be repeated: a session may have ended unnoticed.
func (l *link) again(ctx context.Context, use func(context.Context, *lockdb.Queries) error) error {
	err := l.do(ctx, use)
	if isUnknown(err) && ctx.Err() == nil {
		err = l.do(ctx, use)
	}
	return err
}

// ask is [link.again] for a statement with an answer.
func ask[T any](ctx context.Context, l *link, use func(context.Context, *lockdb.Queries) (T, error)) (answer T, err error) {
	err = l.again(ctx, func(ctx context.Context, q *lockdb.Queries) (err error) {
		answer, err = use(ctx, q)
		return err
	})
	return answer, err
}

// try is do, once.
func (l *link) try(ctx context.Context, use func(context.Context, *lockdb.Queries) error) error {
	c, err := l.pool.Acquire(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		return fmt.Errorf("%w: no connection for locks was free or dialled in time: %w", driver.ErrUnavailable, context.Cause(ctx))
	case err != nil:
		return sqlstate.ExplainOwn(err)
	}
	defer c.Release()
	conn := c.Conn()
	notes := conn.PgConn().CustomData()
	delete(notes, unconfirmed)
	g := records.Guarded{DB: conn, Owners: l.dialer.owners, ReadCommitted: true}
	err = use(ctx, g.Queries())
	_, warned := notes[unconfirmed]
	switch {
	case err == nil && warned:
		return &unknownError{fmt.Errorf("%w: the server has committed without its synchronous standby, so that a failover may "+
			"forget it", driver.ErrUnavailable)}
	case err == nil:
		return nil
	case refused(err):
		rollBack(ctx, conn)
		return classify(ctx, err)
	}
	l.pool.Reset() // a connection has ended: the others may have, too
	return &unknownError{classify(ctx, err)}
}

// rollBack ends a transaction that the server has aborted.
func rollBack(ctx context.Context, conn *pgx.Conn) {
	if conn.IsClosed() || conn.PgConn().TxStatus() == 'I' {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollBackWithin)
	defer cancel()
	_ = lockdb.New(conn).Rollback(ctx) // without it, the pool closes the connection
}

// close closes the connections, and returns when the calls that use them have ended, or ctx has.
func (l *link) close(ctx context.Context) {
	closed := make(chan struct{})
	go func() { defer close(closed); l.pool.Close() }()
	select {
	case <-closed:
	case <-ctx.Done():
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
	return sqlstate.Unsent(err) || errors.Is(err, driver.ErrUntrusted) || errors.Is(err, driver.ErrSchemaMissing) ||
		errors.Is(err, trust.ErrUnknownRole)
}

// classify makes err match the sentinels of package driver.
func classify(ctx context.Context, err error) error {
	if errors.Is(err, trust.ErrUnknownRole) {
		return err
	}
	if sqlstate.Of(err) == sqlstate.FeatureNotSupported {
		return fmt.Errorf("%w: %w", driver.ErrStandby, err) // BEGIN READ WRITE says so there
	}
	if err = sqlstate.ExplainOwn(trust.Explain(err)); ctx.Err() != nil && !errors.Is(err, driver.ErrUnavailable) {
		err = fmt.Errorf("%w: no answer in time: %w", driver.ErrUnavailable, err)
	}
	return err
}

const (
	connectTimeout = 10 * time.Second
	rollBackWithin = time.Second
	looksFresh     = time.Second
)
