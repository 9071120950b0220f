// Package postgres is the PostgreSQL backend of package pglock: it keeps locks with the session-scoped advisory
// functions on its own connections.
//
// It joins four packages, each of which uses those before it:
//
//   - lease: the arithmetic of a session's lease
//   - wire: opens a session's connection, writes statements, reads answers
//   - mux: sessions that carry many locks, by combining; they never wait
//   - waitsession: one session for each lock that is waited for
//
// A lock that is free is taken on a mux session, and only a lock that has to be waited for takes a separate session.
// Queues among goroutines, deadlines and contexts are the front end's. docs/internals/engine.md follows a lock through these packages.
package postgres

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/hooks"
	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/internal/runstore"
	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/between"
	"github.com/pglock-toolkit/pglock/pglock/internal/link"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/mux"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/waitsession"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/wire"
	"github.com/pglock-toolkit/pglock/pglock/internal/recorder"
)

// Config says how to reach the server.
type Config struct {
	// Pool is the application's configuration; the backend takes copies.
	Pool *pgxpool.Config
	Options
}

// Options are the settings that only this backend has. Zero values are replaced by defaults.
type Options struct {
	AllowPooler, AllowStandby bool
	// Sessions is how many mux sessions there may be; default 2.
	Sessions int
	// MaxWaitSessions is how many sessions may wait, or carry a lock that was waited for; default 16.
	MaxWaitSessions int
	// MaxKeys bounds the keys that all sessions hold; 0 is a quarter of the server's nominal lock table.
	MaxKeys int
	hooks.PostgresConfig
}

// Backend implements [driver.Backend] and, as listed below, optional interfaces.
type Backend struct {
	config Config
	env    driver.Config
	dialer wire.Dialer
	budget mux.Budget
	mux    *mux.Mux
	waits  *waitsession.Pool
	*recorder.Recorder
	fences *recorder.Fences
	shown  *link.Link             // others see its last statement
	asking chan struct{}          // has room while no caller asks for holders
	server atomic.Pointer[string] // of the latest session; nil before the first
}

// New returns a backend that has not dialled yet.
func New(config Config) *Backend {
	if config.Sessions == 0 {
		config.Sessions = 2
	}
	if config.MaxWaitSessions == 0 {
		config.MaxWaitSessions = 16
	}
	return &Backend{config: config, asking: make(chan struct{}, 1)}
}

// Start implements [driver.Backend].
func (b *Backend) Start(env driver.Config) error {
	b.env = env
	b.dialer = wire.Dialer{
		Conn: wire.LockConfig(b.config.Pool.ConnConfig, b.config.Application), BeforeConnect: b.config.Pool.BeforeConnect,
		AllowPooler: b.config.AllowPooler, AllowStandby: b.config.AllowStandby, Lease: env.Lease,
	}
	b.mux = mux.New(mux.Config{Open: b.openMain, Sessions: b.config.Sessions, Log: env.Logger})
	var errs [4]error
	b.waits, errs[0] = waitsession.New(waitsession.Config{
		Open: b.openWaiting, Call: b.mux.Call, Most: b.config.MaxWaitSessions,
		LookEvery: env.Lease, Log: env.Logger,
	})
	links := link.Config{
		Pool: link.Pool(b.config.Pool, b.config.Application, true), Connections: 1, Owners: b.config.TrustedOwners,
		Within: min(env.Lease, b.dialer.Conn.ConnectTimeout), // after which locks on a silent connection are lost too
	}
	links.Pool.AfterConnect = b.dialer.ApplySettings // for the look, which is no transaction of ours
	b.Recorder, errs[1] = recorder.New(links, b.config.RecordNames, env.Logger)
	b.fences, errs[2] = recorder.NewFences(links)
	b.shown, errs[3] = link.New(links)
	return errors.Join(errs[:]...)
}

func (b *Backend) openMain(ctx context.Context, onEnd func(*mux.Session)) (*mux.Session, error) {
	return b.open(ctx, onEnd, false)
}

func (b *Backend) openWaiting(ctx context.Context, onEnd func(*mux.Session)) (*mux.Session, error) {
	return b.open(ctx, onEnd, true)
}

// Ping implements [driver.Backend].
func (b *Backend) Ping(ctx context.Context) error {
	_, _, err := b.mux.Call(ctx, lockdb.Heartbeat)
	if err != nil {
		return sqlstate.ExplainOwn(err)
	}
	return b.Recorder.Ping(ctx)
}

// Release implements [driver.Backend].
func (b *Backend) Release(ctx context.Context, held driver.Grant) error {
	c, err := ours(held)
	if err != nil {
		return err
	}
	return c.Release(ctx)
}

// ReleaseTogether implements [driver.Together]. Grants that were tried together are on one session.
func (b *Backend) ReleaseTogether(_ context.Context, held []driver.Grant) (errs []error, done bool) {
	var grants []*mux.Grant
	for _, g := range held {
		m, err := ours(g)
		if err != nil || len(grants) > 0 && m.Session() != grants[0].Session() {
			return nil, false
		}
		grants = append(grants, m)
	}
	return mux.ReleaseAll(grants), true
}

// Check implements [driver.Backend].
func (b *Backend) Check(ctx context.Context, held driver.Grant) error {
	c, err := ours(held)
	if err != nil {
		return err
	}
	return c.Check(ctx)
}

// Place implements [hooks.Placed]. Behind a proxy that chooses among servers, the next session may be on another one.
func (b *Backend) Place(held driver.Grant) any {
	if c, err := ours(held); err == nil {
		return c.Session().Server()
	}
	if server := b.server.Load(); server != nil {
		return *server
	}
	return nil
}

// Look implements [between.Backend]. The text stands in the statement, in front of it.
func (b *Backend) Look(ctx context.Context, text string) (between.Sight, error) {
	var answer string
	err := b.shown.Raw(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, text+lockdb.LookAtWaits, pgx.QueryExecModeSimpleProtocol, "").Scan(&answer)
	})
	if err != nil {
		return between.Sight{}, err
	}
	return between.Read(answer)
}

// Published implements [between.Backend].
func (b *Backend) Published(key driver.KeyID) driver.KeyID { return key }

// SeesRows implements [between.Backend].
func (b *Backend) SeesRows() bool { return false }

// Owner implements [between.Backend].
func (b *Backend) Owner(held driver.Grant) string {
	c, err := ours(held)
	if err != nil {
		return ""
	}
	return c.Session().PID()
}

// Drain implements [driver.Drainer].
func (b *Backend) Drain() { b.mux.Refuse() }

// Close implements [driver.Backend].
func (b *Backend) Close(ctx context.Context) error {
	b.waits.Close()
	b.mux.Close()
	b.Recorder.Close(ctx)
	b.fences.Close(ctx)
	b.shown.Close(ctx)
	return nil
}

var _ interface {
	driver.Backend
	driver.Together
	driver.Fencer
	driver.TxGuard
	driver.Drainer
	hooks.Placed
	hooks.Recorder
	runstore.Store
	between.Backend
} = (*Backend)(nil)
