package postgres

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// lockSessionConfig derives the configuration of lock sessions from the caller's. What reaches the server stays (address,
// TLS, DialFunc, credentials, ValidateConnect); what observes or prepares the caller's own connections does not.
func lockSessionConfig(config Config) *pgx.ConnConfig {
	c := config.Conn.Copy()
	c.Tracer = nil
	c.AfterConnect = nil
	c.OnNotice = nil
	c.OnNotification = nil
	// Each statement is a single message then: the server watches an idle client, and one that it has half a message of,
	// but not one that has sent a Parse and no Sync (idle_session_timeout is armed with ReadyForQuery).
	c.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	c.RuntimeParams["standard_conforming_strings"] = "on" // which that mode relies on, as on
	c.RuntimeParams["client_encoding"] = "UTF8"
	c.StatementCacheCapacity, c.DescriptionCacheCapacity = 0, 0
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = defaultConnectTimeout
	}
	c.RuntimeParams["application_name"] = markedName(config.ApplicationName, c.RuntimeParams["application_name"])
	return c
}

// connect dials with a copy of the configuration that BeforeConnect and then adapt have seen.
func connect(ctx context.Context, config Config, adapt func(*pgx.ConnConfig)) (*pgx.Conn, error) {
	c := config.Conn.Copy()
	if config.BeforeConnect != nil {
		if err := config.BeforeConnect(ctx, c); err != nil {
			return nil, fmt.Errorf("%w: BeforeConnect: %w", driver.ErrUnavailable, err)
		}
	}
	adapt(c)
	conn, err := pgx.ConnectConfig(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	}
	// The database's owner may have set another search_path, and what is found there first would be executed. (As a
	// startup parameter poolers would refuse it.)
	if _, err := conn.Exec(ctx, "SET search_path = pg_catalog, pg_temp"); err != nil {
		_ = conn.Close(ctx) // it closes the socket in any case
		return nil, fmt.Errorf("%w: set search_path: %w", driver.ErrUnavailable, err)
	}
	return conn, nil
}

// open dials a session, refuses servers that cannot lock, and sets it up.
func open(ctx context.Context, b *Backend) (*session, error) {
	s := &session{backend: b, turn: make(chan struct{}, 1)}
	s.turn <- struct{}{}
	s.mayDial.Store(true)
	conn, err := connect(ctx, b.config, s.adapt)
	if err != nil {
		return nil, err
	}
	s.mayDial.Store(false)
	s.conn, s.pg = conn, conn.PgConn()
	if !b.config.AllowPooler {
		s.pid = int32(s.pg.PID())
	}
	s.names = namesOn(s.pid)
	if err := s.setUp(ctx); err != nil {
		s.hangUp(ctx)
		return nil, err
	}
	return s, nil
}

// adapt makes the connection call the session when the context of a statement ends, and keeps it from dialling by
// itself: pgx sends a cancel request when it gives a connection up, for up to 15 s into a network that may be dead. The
// session closes the socket, which says the same.
func (s *session) adapt(c *pgx.ConnConfig) {
	c.BuildContextWatcherHandler = func(pg *pgconn.PgConn) ctxwatch.Handler {
		s.pg = pg
		return s
	}
	dial := c.DialFunc
	c.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		if !s.mayDial.Load() {
			return nil, errors.New("the lock session has ended")
		}
		return dial(ctx, network, address)
	}
}

func (s *session) setUp(ctx context.Context) error {
	if version := s.pg.ParameterStatus("crdb_version"); version != "" {
		return fmt.Errorf("%w: the server is CockroachDB (%s), whose advisory locks do nothing", driver.ErrUnsupported, version)
	}
	keepAlive := keepAliveWithin(s.lease())
	if err := watchSocket(s.pg.Conn(), keepAlive); err != nil {
		return fmt.Errorf("%w: set TCP keepalives: %w", driver.ErrUnavailable, err)
	}
	sent := driver.Now()
	row, err := lockdb.New(s.conn).SetUpSession(ctx, lockdb.SetUpSessionParams{
		LeaseMs:           milliseconds(s.lease()),
		CheckMs:           milliseconds(s.heartbeatEvery()),
		KeepaliveIdle:     seconds(keepAlive.Idle),
		KeepaliveInterval: seconds(keepAlive.Interval),
		KeepaliveCount:    strconv.Itoa(keepAlive.Count),
		Pid:               s.pid,
		AllowStandby:      s.backend.config.AllowStandby,
	})
	if err != nil {
		return fmt.Errorf("%w: set up a lock session: %w", driver.ErrUnavailable, err)
	}
	s.trustSince(sent)
	s.lockTable = int(row.LockTable)
	return refusal(row.Outcome)
}

// keepAliveWithin returns keepalive settings with which a silent peer is noticed within the lease, or within two
// seconds for a shorter one: TCP counts in whole seconds.
func keepAliveWithin(lease time.Duration) net.KeepAliveConfig {
	every := max(time.Second, (lease / 5).Truncate(time.Second))
	count := max(1, min(3, int((lease-every)/every)))
	return net.KeepAliveConfig{Enable: true, Idle: every, Interval: every, Count: count}
}

// watchSocket sets the client's side of it. What is not TCP (a Unix socket, a caller's own DialFunc) tells by itself.
func watchSocket(conn net.Conn, config net.KeepAliveConfig) error {
	if secured, ok := conn.(*tls.Conn); ok {
		conn = secured.NetConn()
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		return tcp.SetKeepAliveConfig(config)
	}
	return nil
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
func seconds(d time.Duration) string      { return strconv.FormatInt(int64(d.Seconds()), 10) }

// defaultConnectTimeout is for configurations that set none: a server that does not answer must not be waited for as if
// it were a held lock.
const defaultConnectTimeout = 10 * time.Second
