package link

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/appname"
	"github.com/pglock-toolkit/pglock/internal/trust"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/refusal"
)

// Adapt changes the configuration of the application's connections into that of the library's own. How the server is
// reached stays (address, TLS, DialFunc, credentials, ValidateConnect); functions that observe or prepare the
// application's connections go.
func Adapt(c *pgx.ConnConfig, application string) {
	c.Tracer, c.AfterConnect, c.OnNotice = nil, nil, nil
	c.OnNotification = func(*pgconn.PgConn, *pgconn.Notification) {} // else pgx collects them
	c.BuildContextWatcherHandler = func(pg *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.DeadlineContextWatcherHandler{Conn: pg.Conn()}
	}
	c.StatementCacheCapacity, c.DescriptionCacheCapacity = 0, 0
	c.RuntimeParams["standard_conforming_strings"] = "on" // which texts of this library need,
	c.RuntimeParams["client_encoding"] = "UTF8"           // as this, and poolers know both
	c.RuntimeParams["application_name"] = appname.Of(application, c.RuntimeParams["application_name"])
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = defaultConnectTimeout
	}
}

// defaultConnectTimeout is for configurations that set none: a server that does not answer must not be waited for as if
// it were a held lock.
const defaultConnectTimeout = 10 * time.Second

// Before returns what changes the configuration of each new connection: own, the application's BeforeConnect, and what
// bounds the look for the addresses of a host. So dialling takes at most ConnectTimeout for each step: own, the look, and
// each address, as pgx has it. Of several hosts, or addresses of a name, the next one is asked when one is silent.
func Before(own func(context.Context, *pgx.ConnConfig) error, within time.Duration) func(context.Context, *pgx.ConnConfig) error {
	return func(ctx context.Context, c *pgx.ConnConfig) error {
		if own != nil {
			bounded, cancel := context.WithTimeout(ctx, within)
			defer cancel()
			if err := own(bounded, c); err != nil {
				return fmt.Errorf("%w: BeforeConnect: %w", driver.ErrUnavailable, err)
			}
		}
		if c.ConnectTimeout == 0 {
			c.ConnectTimeout = within
		}
		lookUp, within := c.LookupFunc, c.ConnectTimeout
		c.LookupFunc = func(ctx context.Context, host string) ([]string, error) {
			ctx, cancel := context.WithTimeout(ctx, within)
			defer cancel()
			return lookUp(ctx, host)
		}
		trust.PinSearchPath(&c.Config)
		return nil
	}
}

// Pool derives the configuration of a link's connections from that of the application's.
//
// Without cancels the server is not asked to cancel a statement that is given up. PgBouncer 1.18 can end when such a request
// is late.
func Pool(own *pgxpool.Config, application string, cancels bool) *pgxpool.Config {
	p := own.Copy()
	p.AfterConnect = func(_ context.Context, conn *pgx.Conn) error { return refusal.CheckServer(conn) }
	p.AfterRelease, p.BeforeClose = nil, nil
	p.PrepareConn = func(context.Context, *pgx.Conn) (bool, error) { return true, nil } // it also replaces BeforeAcquire
	p.MinConns, p.MinIdleConns, p.MaxConnLifetime, p.MaxConnLifetimeJitter = 0, 0, 0, 0
	p.MaxConnIdleTime, p.HealthCheckPeriod = time.Minute, time.Minute
	p.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false } // see Link
	Adapt(p.ConnConfig, application)
	p.ConnConfig.OnNotice = noticed
	p.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	before := Before(p.BeforeConnect, p.ConnConfig.ConnectTimeout)
	p.BeforeConnect = func(ctx context.Context, c *pgx.ConnConfig) error {
		err := before(ctx, c)
		if !cancels {
			gate := &Gate{}
			gate.Open.Store(true)
			gate.Guard(&c.Config)
			c.AfterConnect = func(context.Context, *pgconn.PgConn) error { gate.Open.Store(false); return nil }
		}
		return err
	}
	return p
}

// Gate lets a connection dial only while it is open. When pgx gives a connection up, it dials again to send a cancel
// request, for up to 15 s even if the network is dead.
type Gate struct{ Open atomic.Bool }

// Guard puts the gate before the DialFunc of a connection.
func (g *Gate) Guard(c *pgconn.Config) {
	dial := c.DialFunc
	c.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		if !g.Open.Load() {
			return nil, errors.New("the connection has been made")
		}
		return dial(ctx, network, address)
	}
}
