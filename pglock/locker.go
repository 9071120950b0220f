package pglock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/combine"
	"github.com/pglock-toolkit/pglock/internal/hooks"
	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres"
)

// Locker holds locks across transactions and processes. Make one for each database and process, share it among all
// goroutines, and close it at the end. All methods may be called concurrently.
//
// Locks of one Locker exclude each other like those of two processes: no lock is reentrant, so a goroutine that locks a
// key which it holds already waits for itself, and TryLock fails. Waiters of one process are served first come,
// first served; among processes the server's queue decides. A lock may be handed off to the next waiter of this process
// without asking the server, within [WithHandoffLimit].
type Locker struct {
	backend driver.Backend
	byName  bool // the backend distinguishes locks by their names
	config  lockerConfig
	tokens  string // what the tokens of this Locker begin with

	closing chan struct{} // closed when Close begins
	drained chan struct{} // closed when, after that, no key is in use

	groups [groups]group
	closed atomic.Bool // written under the mutexes of all groups

	undrained atomic.Int32 // groups that have had entries since then

	numbers atomic.Uint64 // of tokens

	mu     sync.Mutex
	asking map[*request]context.CancelCauseFunc // what waits for the backend, to be ended by Close

	notifications combine.Queue[loss]
	waits         waitWatch
	graph         *waitGraph // of this process
	lookout       *lookout
	questions     sync.Map // of *question, by identity
}

type lockerConfig struct {
	env        driver.Config
	postgres   postgres.Options
	handoffs   int
	handoffFor time.Duration
	observer   Observer
	warnAfter  time.Duration

	forPostgres []string // names of options that are for PostgreSQL only
}

const (
	defaultLease      = 15 * time.Second
	minLease          = time.Second
	maxLease          = 24 * time.Hour
	defaultHandoffs   = 1000
	defaultHandoffFor = 20 * time.Millisecond
	defaultWarnAfter  = 5 * time.Second
)

// New returns a Locker on the server of pool. It uses the pool's configuration only: the Locker dials sessions of its
// own, on top of the pool's MaxConns, so that holders and waiters never take connections away from queries.
// BeforeConnect, TLS and DialFunc are honoured; AfterConnect and tracers are not. It does not dial yet; see
// [Locker.Ping].
func New(pool *pgxpool.Pool, opts ...Option) (*Locker, error) {
	if pool == nil {
		return nil, errors.New("pglock: the pool is nil")
	}
	return NewWithConfig(pool.Config(), opts...)
}

// NewWithConfig is [New] for a configuration without a pool, for example one with the server's own address if the
// application's pool goes through a pooler. The configuration must come from [pgxpool.ParseConfig].
func NewWithConfig(cfg *pgxpool.Config, opts ...Option) (*Locker, error) {
	if cfg == nil || cfg.ConnConfig == nil || cfg.ConnConfig.RuntimeParams == nil || cfg.HealthCheckPeriod == 0 {
		return nil, errors.New("pglock: the configuration is empty: it must come from pgxpool.ParseConfig")
	}
	config, err := newLockerConfig(opts)
	if err != nil {
		return nil, err
	}
	return newLocker(postgres.New(postgres.Config{Pool: cfg, Options: config.postgres}), config)
}

// Open parses connString as [pgxpool.ParseConfig] does, makes a Locker and pings the server. Unlike libpq, ParseConfig
// reads passwords and keys also from files that other users can read. When the ping fails the Locker is closed again.
func Open(ctx context.Context, connString string, opts ...Option) (*Locker, error) {
	cfg, err := pgxpool.ParseConfig(connString)
	if err != nil {
		return nil, fmt.Errorf("pglock: %w", sqlstate.WithoutKeys(err)) // pgx leaves passwords out of it
	}
	l, err := NewWithConfig(cfg, opts...)
	if err != nil {
		return nil, err
	}
	if err := l.Ping(ctx); err != nil {
		return nil, errors.Join(err, l.Close(ctx))
	}
	return l, nil
}

// NewWithBackend returns a Locker on a backend other than PostgreSQL. Options that only PostgreSQL has are errors that
// match [ErrUnsupported].
func NewWithBackend(b driver.Backend, opts ...Option) (*Locker, error) {
	if b == nil {
		return nil, errors.New("pglock: the backend is nil")
	}
	config, err := newLockerConfig(opts)
	if err != nil {
		return nil, err
	}
	if own, ok := b.(hooks.PostgresOptions); ok {
		config.forPostgres = own.Configure(config.postgres.PostgresConfig, config.forPostgres)
	}
	if len(config.forPostgres) > 0 {
		return nil, fmt.Errorf("pglock: %w: %s: not for this backend", ErrUnsupported, strings.Join(config.forPostgres, ", "))
	}
	return newLocker(b, config)
}

// postgresOnly notes that an option for PostgreSQL only was given.
func (c *lockerConfig) postgresOnly(name string) error {
	c.forPostgres = append(c.forPostgres, name)
	return nil
}

func newLockerConfig(opts []Option) (lockerConfig, error) {
	c := lockerConfig{handoffs: defaultHandoffs, handoffFor: defaultHandoffFor, warnAfter: defaultWarnAfter}
	c.env.Logger, c.env.Lease = slog.Default(), defaultLease
	for _, opt := range opts {
		if opt == nil {
			return c, errors.New("pglock: an Option is nil")
		}
		if err := opt.applyLocker(&c); err != nil {
			return c, err
		}
	}
	return c, nil
}

func newLocker(b driver.Backend, config lockerConfig) (*Locker, error) {
	if err := b.Start(config.env); err != nil {
		return nil, fmt.Errorf("pglock: %w", err)
	}
	l := &Locker{
		backend: b, config: config, tokens: rand.Text() + "-", graph: waits, drained: make(chan struct{}), closing: make(chan struct{}),
		asking: map[*request]context.CancelCauseFunc{},
	}
	for i := range l.groups {
		l.groups[i].entries = map[identity]*entry{}
	}
	l.lookout = newLookout(l)
	l.notifications.Send = reportLosses
	if named, ok := b.(driver.NamedLocks); ok {
		l.byName = named.LocksByName()
	}
	return l, nil
}

// Ping asks the server, dialling if necessary, whether locks can be taken there. It returns errors that match
// [ErrUnavailable], [ErrDenied], [ErrPooler], [ErrStandby] or [ErrUnsupported]. With [WithNames] it also asks
// whether names can be recorded: the error matches [ErrSchemaMissing] if there is no registry, [ErrUntrusted] if its
// owner is not trusted, or a role that [WithTrustedOwner] names does not exist, and [ErrDenied] if the role lacks a right
// on it.
func (l *Locker) Ping(ctx context.Context) error {
	if err := l.checkOpen(); err != nil {
		return fmt.Errorf("pglock: ping: %w", err)
	}
	if err := l.backend.Ping(ctx); err != nil {
		return fmt.Errorf("pglock: ping: %w", err)
	}
	return nil
}

// Holders asks the server for the present holders of the key, in all processes. The result is empty if the key is free.
// It may have changed by the time Holders returns.
func (l *Locker) Holders(ctx context.Context, key Key) ([]Holder, error) {
	err := key.check()
	if err == nil {
		err = l.checkOpen()
	}
	if err != nil {
		return nil, failed("ask who holds", key, 0, err)
	}
	holders, err := l.holders(ctx, key.k)
	if err != nil {
		return nil, failed("ask who holds", key, 0, err)
	}
	return holders, nil
}

// holders asks the backend, and sets Self where a token is one of this Locker's.
func (l *Locker) holders(ctx context.Context, key driver.Key) ([]Holder, error) {
	holders, err := l.backend.Holders(ctx, key)
	for i := range holders {
		if strings.HasPrefix(holders[i].Token, l.tokens) {
			holders[i].Self = true
		}
	}
	return holders, err
}

// Stats are the counters of a Locker.
type Stats struct {
	// Held is the number of Locks held now, and Waiting the number of calls that wait for one, in this process. The
	// server, and so the monitor, sees one waiter for all calls of a process that wait for the same key.
	Held, Waiting int
	// Acquired counts the Locks granted so far; HandedOff those of them that this process granted
	// without asking the server.
	Acquired, HandedOff int64
	// Lost counts the Locks that ended without being unlocked.
	Lost int64
}

// Stats returns the Locker's counters.
func (l *Locker) Stats() Stats {
	var s Stats
	for i := range l.groups {
		c := &l.groups[i].counts
		s.Held, s.Waiting = s.Held+int(c.held.Load()), s.Waiting+int(c.waiting.Load())
		s.Acquired, s.HandedOff, s.Lost = s.Acquired+c.acquired.Load(), s.HandedOff+c.handedOff.Load(), s.Lost+c.lost.Load()
	}
	return s
}

func (l *Locker) checkOpen() error {
	if l.closed.Load() {
		return ErrClosed
	}
	return nil
}

// token returns the text that identifies an acquisition among those of all processes. It is made when it is asked for, since few ask.
func (l *Locker) token(number uint64) string { return l.tokens + strconv.FormatUint(number, 10) }
