package wire

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/link"
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

// LockConfig derives the configuration of lock sessions from the caller's.
func LockConfig(own *pgx.ConnConfig, applicationName string) *pgx.ConnConfig {
	c := own.Copy()
	link.Adapt(c, applicationName)
	c.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol // a statement is a single message then
	return c
}

// connect dials with a copy of the configuration, and makes the session independent of what the database's owner may
// have set. It refuses CockroachDB and, unless AllowPooler, a proxy, before it has changed anything there. How long that
// may take [link.Before] says.
func (d *Dialer) connect(ctx context.Context, dialling *link.Gate) (*pgx.Conn, error) {
	c := d.Conn.Copy()
	if err := link.Before(d.BeforeConnect, c.ConnectTimeout)(ctx, c); err != nil {
		return nil, err
	}
	dialling.Guard(&c.Config)
	conn, err := pgx.ConnectConfig(ctx, c)
	if err != nil {
		return nil, sqlstate.ExplainOwn(err)
	}
	if err = d.ApplySettings(ctx, conn); err != nil {
		_ = conn.PgConn().Conn().Close() // the error that counts is err
	}
	return conn, err
}

// Open dials a lock session, refuses servers that cannot lock, sets it up and prepares its statements.
func (d *Dialer) Open(ctx context.Context, witness Witness) (*Conn, *lease.Lease, error) {
	var dialling link.Gate // a lock session closes the socket in place of a cancel request, with the same effect
	dialling.Open.Store(true)
	conn, err := d.connect(ctx, &dialling)
	if err != nil {
		return nil, nil, err
	}
	dialling.Open.Store(false)
	ctx, cancel := context.WithTimeout(ctx, d.Conn.ConnectTimeout)
	defer cancel()
	c, l, err := d.makeLockSession(ctx, conn, &dialling, witness)
	if err != nil {
		_ = conn.PgConn().Conn().Close() // the error that counts is err
	}
	return c, l, err
}

func (d *Dialer) makeLockSession(
	ctx context.Context, conn *pgx.Conn, dialling *link.Gate, witness Witness,
) (*Conn, *lease.Lease, error) {
	l, server, err := d.setUp(ctx, conn)
	if err != nil {
		return nil, nil, err
	}
	identity := witness(conn)
	pg := conn.PgConn()
	hijacked, err := pg.Hijack()
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	}
	c := NewConn(hijacked.Conn, hijacked.Frontend, hijacked.PID, d.guardPID(pg))
	c.LockTable, c.Server, c.Database = int(server.LockTable), server.Server, uint32(server.Database)
	c.cancel = func(ctx context.Context) error {
		dialling.Open.Store(true)
		defer dialling.Open.Store(false)
		return pg.CancelRequest(ctx)
	}
	stop := context.AfterFunc(ctx, func() { _ = hijacked.Conn.SetDeadline(longAgo) }) // fails only on a closed socket
	if err = c.prepare(); err == nil {
		err = c.Prove(c.ask, identity)
	}
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	return c, l, NotOpened("prepare a lock session", err)
}

// guardPID returns the process ID that statements compare with that of their server process, to find out whether a proxy
// is in between; 0 where one is allowed.
func (d *Dialer) guardPID(pg *pgconn.PgConn) int32 {
	if d.AllowPooler {
		return 0
	}
	return int32(pg.PID())
}

func (d *Dialer) setUp(ctx context.Context, conn *pgx.Conn) (l *lease.Lease, row lockdb.SetUpSessionRow, err error) {
	pg := conn.PgConn()
	keepAlive := keepAliveWithin(d.Lease)
	if err := setKeepAlive(pg.Conn(), keepAlive); err != nil {
		return nil, row, fmt.Errorf("%w: set TCP keepalives: %w", driver.ErrUnavailable, err)
	}
	l = lease.New(d.Lease, driver.Now)
	row, err = lockdb.New(conn).SetUpSession(ctx, lockdb.SetUpSessionParams{
		LeaseMs:           milliseconds(d.Lease),
		CheckMs:           milliseconds(l.Every()),
		KeepaliveIdle:     seconds(keepAlive.Idle),
		KeepaliveInterval: seconds(keepAlive.Interval),
		KeepaliveCount:    strconv.Itoa(keepAlive.Count),
		Pid:               d.guardPID(pg),
		AllowStandby:      d.AllowStandby,
	})
	if err != nil {
		return nil, row, NotOpened("set up a lock session", err)
	}
	return l, row, Refusal(row.Outcome)
}

// NotOpened is the error of a step that opens a session. A full lock table, where every step can fail, is no outage.
func NotOpened(step string, err error) error {
	switch {
	case err == nil:
		return nil
	case sqlstate.Of(err) == sqlstate.OutOfMemory:
		return sqlstate.Explain(fmt.Errorf("%s: %w", step, err))
	case sqlstate.HasSentinel(err): // an error of a context is our own timeout's, and so an outage
		return fmt.Errorf("%s: %w", step, err)
	case isShared(err):
		return fmt.Errorf("%w: %s: another client uses the session of this new connection (connect directly): %w", driver.ErrPooler, step, err)
	}
	return fmt.Errorf("%w: %s: %w", driver.ErrUnavailable, step, err)
}

var longAgo = time.Unix(1, 0)
