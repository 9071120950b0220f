package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"

	"github.com/pglock-toolkit/pglock/internal/appname"
	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/internal/trust"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/lease"
)

// Dialer opens connections for lock sessions.
type Dialer struct {
	// Conn is the connection configuration; see [LockConfig].
	Conn *pgx.ConnConfig
	// BeforeConnect may change the copy that each new connection is made with, as pgxpool.Config has it.
	BeforeConnect             func(context.Context, *pgx.ConnConfig) error
	AllowPooler, AllowStandby bool
	// Lease is how long a silent client keeps its locks.
	Lease time.Duration
}

// LockConfig derives the configuration of lock sessions from the caller's. It keeps how the server is reached (address, TLS,
// DialFunc, credentials, ValidateConnect), and drops functions that observe or prepare the caller's own connections.
func LockConfig(own *pgx.ConnConfig, applicationName string) *pgx.ConnConfig {
	c := own.Copy()
	c.Tracer = nil
	c.AfterConnect = nil
	c.OnNotice = nil
	c.OnNotification = nil
	c.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol // a statement is a single message then
	c.RuntimeParams["standard_conforming_strings"] = "on"    // which that mode relies on,
	c.RuntimeParams["client_encoding"] = "UTF8"              // as on this
	c.StatementCacheCapacity, c.DescriptionCacheCapacity = 0, 0
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = defaultConnectTimeout
	}
	c.RuntimeParams["application_name"] = appname.Of(applicationName, c.RuntimeParams["application_name"])
	return c
}

// Connect dials with a copy of the configuration, which BeforeConnect and then adapt may change. Connections that are not
// lock sessions are made with it too.
func (d *Dialer) Connect(ctx context.Context, adapt func(*pgx.ConnConfig)) (*pgx.Conn, error) {
	c := d.Conn.Copy()
	if d.BeforeConnect != nil {
		if err := d.BeforeConnect(ctx, c); err != nil {
			return nil, fmt.Errorf("%w: BeforeConnect: %w", driver.ErrUnavailable, err)
		}
	}
	adapt(c)
	trust.PinSearchPath(&c.Config)
	conn, err := pgx.ConnectConfig(ctx, c)
	if sqlstate.Denied(err) {
		return nil, fmt.Errorf("%w ("+sqlstate.DeniedAdvice+"): %w", driver.ErrDenied, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	}
	// Replace what the database's owner may have set. (Poolers would refuse these settings as startup parameters.)
	if _, err := conn.Exec(ctx, trust.SetSearchPath+ownSettings); err != nil {
		_ = conn.PgConn().Conn().Close() // the error that counts is err
		return nil, fmt.Errorf("%w: set up the session: %w", driver.ErrUnavailable, err)
	}
	return conn, nil
}

// ownSettings are for the statements that set up a lock session, which must not be cut short, and for records: a look
// at the owner of the schema should be as new as what follows it, and pgx reads dates in one form only.
const ownSettings = "; SET statement_timeout = 0; SET default_transaction_isolation = 'read committed'" +
	"; SET default_transaction_read_only = off; SET datestyle = ISO"

// Open dials a lock session, refuses servers that cannot lock, sets it up and prepares its statements.
func (d *Dialer) Open(ctx context.Context) (*Conn, *lease.Lease, error) {
	var dialling gate
	dialling.open.Store(true)
	conn, err := d.Connect(ctx, dialling.adapt)
	if err != nil {
		return nil, nil, err
	}
	dialling.open.Store(false)
	c, l, err := d.makeLockSession(ctx, conn, &dialling)
	if err != nil {
		_ = conn.PgConn().Conn().Close() // the error that counts is err
		return nil, nil, err
	}
	return c, l, nil
}

func (d *Dialer) makeLockSession(ctx context.Context, conn *pgx.Conn, dialling *gate) (*Conn, *lease.Lease, error) {
	l, lockTable, err := d.setUp(ctx, conn)
	if err != nil {
		return nil, nil, err
	}
	pg := conn.PgConn()
	hijacked, err := pg.Hijack()
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	}
	c := NewConn(hijacked.Conn, hijacked.Frontend, hijacked.PID, d.guardPID(pg))
	c.LockTable = lockTable
	c.Interruptible = hasDeadlines(hijacked.Conn)
	c.cancel = func(ctx context.Context) error {
		dialling.open.Store(true)
		defer dialling.open.Store(false)
		return pg.CancelRequest(ctx)
	}
	stop := context.AfterFunc(ctx, func() { _ = hijacked.Conn.SetDeadline(longAgo) }) // fails only on a closed socket
	err = c.prepare()
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%w: prepare a lock session: %w", driver.ErrUnavailable, err)
	}
	return c, l, nil
}

// guardPID returns the process ID that statements compare with that of their server process, to find out whether a proxy
// is in between; 0 where one is allowed.
func (d *Dialer) guardPID(pg *pgconn.PgConn) int32 {
	if d.AllowPooler {
		return 0
	}
	return int32(pg.PID())
}

func (d *Dialer) setUp(ctx context.Context, conn *pgx.Conn) (*lease.Lease, int, error) {
	pg := conn.PgConn()
	if version := pg.ParameterStatus("crdb_version"); version != "" {
		return nil, 0, fmt.Errorf("%w: the server is CockroachDB (%s), whose advisory locks do nothing", driver.ErrUnsupported, version)
	}
	keepAlive := keepAliveWithin(d.Lease)
	if err := setKeepAlive(pg.Conn(), keepAlive); err != nil {
		return nil, 0, fmt.Errorf("%w: set TCP keepalives: %w", driver.ErrUnavailable, err)
	}
	l := lease.New(d.Lease, driver.Now)
	row, err := lockdb.New(conn).SetUpSession(ctx, lockdb.SetUpSessionParams{
		LeaseMs:           milliseconds(d.Lease),
		CheckMs:           milliseconds(l.Every()),
		KeepaliveIdle:     seconds(keepAlive.Idle),
		KeepaliveInterval: seconds(keepAlive.Interval),
		KeepaliveCount:    strconv.Itoa(keepAlive.Count),
		Pid:               d.guardPID(pg),
		AllowStandby:      d.AllowStandby,
	})
	if err != nil {
		return nil, 0, fmt.Errorf("%w: set up a lock session: %w", driver.ErrUnavailable, err)
	}
	return l, int(row.LockTable), Refusal(row.Outcome)
}

// gate lets a connection dial only while it is open. When pgx gives a connection up, it dials again to send a cancel
// request, for up to 15 s even if the network is dead. A lock session closes the socket instead, which has the same effect.
type gate struct{ open atomic.Bool }

func (g *gate) adapt(c *pgx.ConnConfig) {
	c.BuildContextWatcherHandler = func(pg *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.DeadlineContextWatcherHandler{Conn: pg.Conn()}
	}
	dial := c.DialFunc
	c.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		if !g.open.Load() {
			return nil, errors.New("the lock session has ended")
		}
		return dial(ctx, network, address)
	}
}

// defaultConnectTimeout is for configurations that set none: a server that does not answer must not be waited for as if
// it were a held lock.
const defaultConnectTimeout = 10 * time.Second

var longAgo = time.Unix(1, 0)
