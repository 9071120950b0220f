// Package postgres is the PostgreSQL backend of package pglock: it keeps locks with the session-scoped advisory
// functions on connections of its own.
//
// A few main sessions carry all locks that were free when they were asked for (lanes); they never wait. What has to be
// waited for is waited for on sessions that hold nothing else (turns, session), without a snapshot, and stays there.
// Every session is a lease. Queues among goroutines, deadlines and contexts are the front end's.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// Config says how to reach the server.
type Config struct {
	// Conn is the connection configuration; the backend takes a copy.
	Conn *pgx.ConnConfig
	// BeforeConnect may change the copy that each new connection is made with, as [pgxpool.Config] has it.
	BeforeConnect func(context.Context, *pgx.ConnConfig) error
	Options
}

// Options are the settings that only this backend has. Zero values are replaced by defaults.
type Options struct {
	ApplicationName           string
	AllowPooler, AllowStandby bool
	// Sessions is how many main sessions there may be; default 2.
	Sessions int
	// MaxWaitSessions is how many sessions may wait in the server's queue; default 4.
	MaxWaitSessions int
	// MaxKeys bounds the keys that the main sessions hold; 0 is a quarter of the server's nominal lock table, and
	// [Unbounded] is no bound.
	MaxKeys int
	// TrustedOwners are further roles that may own schema pglock; see package trust.
	TrustedOwners []string
}

// Unbounded is a MaxKeys.
const Unbounded = -1

// Backend implements [driver.Backend], [driver.Fencer] and [driver.TxGuard].
type Backend struct {
	config    Config
	env       driver.Env
	names     *recorder
	ticks     *ticks
	lanes     lanes
	turns     turns
	pool      pool
	attendant attendant
	probe     chan struct{} // has room while nobody probes; see joinShared
	asking    chan struct{} // has room while nobody asks for holders
	sliced    atomic.Bool   // waits are sliced; see prepareToWait
	probing   atomic.Bool   // it is found out, or known, whether they must be; see probeWaits

	life       context.Context // ends with Close
	end        context.CancelFunc
	spawning   sync.Mutex // held while life ends
	background sync.WaitGroup
}

// New returns a backend that has not dialled yet.
func New(config Config) *Backend {
	config.Conn = lockSessionConfig(config)
	if config.Sessions == 0 {
		config.Sessions = 2
	}
	if config.MaxWaitSessions == 0 {
		config.MaxWaitSessions = 4
	}
	b := &Backend{
		config: config,
		probe:  make(chan struct{}, 1), asking: make(chan struct{}, 1),
	}
	b.life, b.end = context.WithCancel(context.Background())
	b.lanes = lanes{backend: b, shared: map[driver.KeyID]*sharedKey{}}
	b.turns = turns{backend: b}
	b.ticks = newTicks(config)
	b.attendant = attendant{backend: b}
	b.pool = pool{backend: b, open: map[*session]struct{}{}}
	return b
}

// Start implements [driver.Backend].
func (b *Backend) Start(env driver.Env) error {
	if env.Lease == 0 {
		env.Lease = DefaultLease
	}
	b.env = env
	if env.RecordNames {
		b.names = newRecorder(b.config, env.Logger)
	}
	return nil
}

// Ping implements [driver.Backend].
func (b *Backend) Ping(ctx context.Context) error {
	if _, _, err := b.lanes.call(ctx, lockdb.Heartbeat); err != nil {
		return classify(err)
	}
	if b.names == nil {
		return nil
	}
	return classify(b.names.ping(ctx))
}

// Acquire implements [driver.Backend].
//
// A try is all it takes when the key is free; the server refuses one that would overtake those who wait in its queue.
func (b *Backend) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	if b.names != nil {
		b.names.note(r.Keys)
	}
	if !r.Wait {
		g, err := b.tryMain(ctx, r)
		return asGrant(g), err
	}
	g, err := b.turns.take(ctx, r)
	if g != nil || err != nil {
		return asGrant(g), err
	}
	g, err = b.acquireAlone(ctx, r)
	b.turns.waited(g)
	if err != nil && ctx.Err() != nil {
		// The server has just said that the lock is held, so this is the end of a wait and no sign of a server that
		// cannot be reached, even if it came while a session was being dialled.
		err = context.Cause(ctx)
	}
	return asGrant(g), err
}

// asGrant keeps a nil from becoming a Grant.
func asGrant(g *grant) driver.Grant {
	if g == nil {
		return nil
	}
	return g
}

func isNotAcquired(err error) bool { return errors.Is(err, driver.ErrNotAcquired) }

// tryMain tries on a main session, and again on another one if that one ends before it answers.
func (b *Backend) tryMain(ctx context.Context, r driver.Request) (*grant, error) {
	for attempt := 0; ; {
		g := newGrant(nil, r)
		err := b.lanes.try(ctx, g)
		switch {
		case err == errCarried && len(r.Keys) == 1:
			g, err = b.joinShared(ctx, r)
		case err == errCarried:
			g, err = b.borrow(ctx, r)
		}
		if err == nil {
			return g, nil
		}
		ended := errors.As(err, &errSessionEnded{})
		if ended {
			attempt++
		}
		switch {
		case err == errTooEarly && ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
			return nil, err // a cause of the caller's own says nothing about the server
		case err != errTooEarly && (!ended || attempt > 2 || ctx.Err() != nil):
			return nil, classify(err)
		}
	}
}

// borrow tries on a session for waiting, for several shared keys of which a main session has one already.
func (b *Backend) borrow(ctx context.Context, r driver.Request) (*grant, error) {
	if !b.turns.mayCarry() {
		return nil, fmt.Errorf("%w: %d sessions carry locks that the main sessions cannot", driver.ErrTooManyLocks, maxCarriers)
	}
	r.Wait = false
	g, err := b.acquireAlone(ctx, r)
	if err == nil {
		b.turns.borrowed(g)
	}
	return g, err
}

// acquireAlone asks for the locks on a session that holds nothing else.
func (b *Backend) acquireAlone(ctx context.Context, r driver.Request) (g *grant, err error) {
	if err := b.lanes.reserveKeys(len(r.Keys)); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			b.lanes.unreserveKeys(len(r.Keys))
		}
	}()
	s, err := b.pool.take(ctx)
	if err != nil {
		return nil, err
	}
	for attempt := 0; ; attempt++ {
		g, err := b.acquireOn(ctx, s, r)
		if err == nil || !s.isDead() {
			if err != nil {
				b.pool.giveBack(s)
				return nil, err
			}
			return g, nil
		}
		// The session has ended, and whatever it held with it. An idle one may have ended long ago, and one that waits
		// can be ended at any time: either way the answer is to ask again on a new one, as long as the server lets us
		// have one and the caller wants to wait.
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if attempt > 0 && (!r.Wait || !pause(ctx, backoff(attempt))) {
			return nil, classify(err)
		}
		if s, err = b.pool.takeNew(ctx); err != nil {
			return nil, err
		}
	}
}

// acquireOn asks for the locks on s. When it fails s holds nothing: it is clean, or dead.
func (b *Backend) acquireOn(ctx context.Context, s *session, r driver.Request) (*grant, error) {
	g := newGrant(s, r)
	var err error
	if r.Wait {
		err = s.lock(ctx, g)
	} else {
		ctx, cancel := patient(ctx)
		defer cancel()
		err = s.tryLock(ctx, g)
	}
	if err != nil {
		return nil, err
	}
	return g, nil
}

// Release implements [driver.Backend].
func (b *Backend) Release(ctx context.Context, held driver.Grant) error {
	g, err := ours(held)
	if err != nil {
		return err
	}
	if g.lane != nil {
		return b.lanes.release(g)
	}
	return b.releaseAlone(ctx, g)
}

func (b *Backend) releaseAlone(ctx context.Context, g *grant) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), driver.ReleaseWithin)
	defer cancel()
	err := g.session.unlock(ctx, g)
	b.pool.giveBack(g.session)
	b.uncount(g)
	return err
}

// uncount is for a grant on a session of its own that is over. It does something once.
func (b *Backend) uncount(g *grant) {
	b.turns.put(g)
	if g.uncounted.CompareAndSwap(false, true) {
		b.lanes.unreserveKeys(g.len())
	}
}

// Check implements [driver.Backend].
func (b *Backend) Check(ctx context.Context, held driver.Grant) error {
	g, err := ours(held)
	if err != nil {
		return err
	}
	if g.lane == nil {
		return g.session.check(ctx, g)
	}
	spaces, numbers := g.held()
	found, err := g.lane.callNumber(ctx, lockdb.CheckSession, arrayText(numbers), arrayText(spaces))
	switch {
	case err != nil:
		return err
	case found != int64(len(numbers)):
		return lostBecause(fmt.Errorf("the server session holds %d of %d keys", found, len(numbers)))
	}
	return nil
}

// Fence implements [driver.Fencer] on the lock's own session, so that a number can only be had while it is alive.
func (b *Backend) Fence(ctx context.Context, held driver.Grant) (int64, error) {
	g, err := ours(held)
	if err != nil {
		return 0, err
	}
	trusted := b.config.TrustedOwners
	if g.lane != nil {
		return g.lane.callNumber(ctx, lockdb.NextFence, namesText(trusted))
	}
	number, err := query(ctx, g.session, func(ctx context.Context, conn *pgx.Conn) (int64, error) {
		return lockdb.New(conn).NextFence(ctx, append([]string{}, trusted...))
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, errNoFence
	}
	return number, g.session.explain(err)
}

// callText runs a statement for a held lock: with the session the lock is gone.
func (s *mainSession) callText(ctx context.Context, sql string, args ...string) (string, error) {
	row, _, err := s.do(ctx, sql, args...)
	if serverCode(err) == codeQueryCanceled { // somebody's pg_cancel_backend
		row, _, err = s.do(ctx, sql, args...)
	}
	if err != nil {
		if s.hasEnded() {
			return "", lostBecause(err)
		}
		return "", classify(err)
	}
	return row, nil
}

func (s *mainSession) callNumber(ctx context.Context, sql string, args ...string) (int64, error) {
	row, err := s.callText(ctx, sql, args...)
	if err != nil {
		return 0, err
	}
	if row == "" {
		return 0, errNoFence
	}
	return strconv.ParseInt(row, 10, 64)
}

// Holders implements [driver.Backend].
func (b *Backend) Holders(ctx context.Context, key driver.Key) ([]driver.Holder, error) {
	select {
	case b.asking <- struct{}{}: // one at a time, so that many who ask at once take one session
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-b.asking }()
	ask := func(s *session) ([]driver.Holder, error) {
		return query(ctx, s, func(ctx context.Context, conn *pgx.Conn) ([]driver.Holder, error) {
			return Holders(ctx, conn, []driver.Key{key})
		})
	}
	s, err := b.pool.take(ctx)
	if err != nil {
		return nil, err
	}
	found, err := ask(s)
	if err != nil && s.isDead() && ctx.Err() == nil {
		if s, err = b.pool.takeNew(ctx); err != nil {
			return nil, err
		}
		found, err = ask(s)
	}
	b.pool.giveBack(s)
	return found, classify(err)
}

// Refuse implements [driver.Refuser].
func (b *Backend) Refuse() {
	b.lanes.refuse()
	b.pool.refuse()
}

// Close implements [driver.Backend].
func (b *Backend) Close(ctx context.Context) error {
	var err error
	if b.names != nil {
		err = b.names.close(ctx)
	}
	b.ticks.close(ctx)
	err = errors.Join(err, b.pool.close(ctx))
	b.spawning.Lock()
	b.end()
	b.spawning.Unlock()
	b.lanes.close()
	b.background.Wait()
	return err
}

// spawn runs something that Close waits for, unless it is waiting already.
func (b *Backend) spawn(run func()) {
	b.spawning.Lock()
	defer b.spawning.Unlock()
	if b.life.Err() == nil {
		b.background.Go(run)
	}
}

// DefaultLease is the lease of sessions when the front end sets none.
const DefaultLease = 15 * time.Second

// patient ends a while after ctx does: a statement that has been sent will be answered soon, and to give it up would be
// the end of its session.
func patient(ctx context.Context) (context.Context, context.CancelFunc) {
	patient, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		if pause(patient, answerPatience) {
			cancel(context.Cause(ctx))
		}
	})
	return patient, func() { stop(); cancel(nil) }
}

// pause waits for d, and reports whether ctx lasted that long.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

func backoff(attempt int) time.Duration {
	return min(time.Second, 50*time.Millisecond<<min(attempt, 10))
}

// ours returns the grant behind held.
func ours(held driver.Grant) (*grant, error) {
	if g, ok := held.(*grant); ok {
		return g, nil
	}
	return nil, fmt.Errorf("a grant of type %T is not of the PostgreSQL backend", held)
}

var _ interface {
	driver.Backend
	driver.Fencer
	driver.TxGuard
	driver.Refuser
} = (*Backend)(nil)

// serverCode returns the SQLSTATE of a server's error.
func serverCode(err error) string {
	if server := (*pgconn.PgError)(nil); errors.As(err, &server) {
		return server.Code
	}
	return ""
}
