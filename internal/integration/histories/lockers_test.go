package histories_test

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/integration/histories"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/locktest"
	"github.com/pglock-toolkit/pglock/pglock/rowlock"
)

// events is the length of a history.
const events = 800

// keys are few, so that there is much contention.
var keys = []pglock.Key{pglock.NewKey("a"), pglock.NewKey("b"), pglock.PairKey(1, 2)}

// run is a number of Lockers that use the same keys, with their history.
type run struct {
	*testing.T
	history *histories.History
	lockers []*pglock.Locker
	looks   bool          // the results of checks are recorded, so they have to be true
	rest    time.Duration // the longest pause between two locks of a worker
	stay    time.Duration // the longest time for which one lock in twenty is held
	rounds  int           // how often the fault happens at least

	use   func(context.Context, *pglock.Locker)              // what a worker does repeatedly; useLock if it is nil
	model porcupine.Model                                    // histories.Model if it is zero
	want  porcupine.CheckResult                              // porcupine.Ok if it is empty
	fence func(*pglock.Lock, context.Context) (int64, error) // of exclusive locks; nil for none
}

func (r *run) open(cfg *pgxpool.Config, opts ...pglock.Option) {
	r.Helper()
	l, err := pglock.NewWithConfig(cfg, append(opts, pglock.WithApplicationName("at work"))...)
	if err != nil {
		r.Fatal(err)
	}
	r.add(l)
}

// add adds a Locker, which is closed when the test ends.
func (r *run) add(l *pglock.Locker) {
	r.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := l.Close(ctx); err != nil {
			r.Error(err)
		}
	})
	r.lockers = append(r.lockers, l)
}

// work records events until there are enough, while fault runs again and again.
func (r *run) work(fault func(context.Context)) {
	r.Helper()
	ctx, stop := context.WithCancel(r.Context())
	defer stop()
	var workers sync.WaitGroup
	use := r.useLock
	if r.use != nil {
		use = r.use
	}
	for _, l := range r.lockers {
		for range 6 {
			workers.Go(func() {
				for ctx.Err() == nil {
					use(ctx, l)
					if r.rest > 0 {
						time.Sleep(rand.N(r.rest))
					}
				}
			})
		}
	}
	var rounds atomic.Int64
	workers.Go(func() {
		for ; ctx.Err() == nil; rounds.Add(1) {
			fault(ctx)
		}
	})
	enough := events
	if r.want != "" { // enough for the fault, and few enough to be judged
		enough = 800
	}
	testenv.WaitUntil(r.T, "there are enough events", func() bool {
		return r.history.Len() >= enough && int(rounds.Load()) >= r.rounds
	})
	stop()
	workers.Wait()
	r.check()
}

func (r *run) check() {
	r.Helper()
	if r.model.Step == nil {
		r.model = histories.Model
	}
	result, info := r.history.CheckAgainst(r.model, time.Minute)
	if result == cmp.Or(r.want, porcupine.Ok) {
		return
	}
	r.Errorf("the history of %d events is %s", r.history.Len(), result)
	picture, err := os.CreateTemp("", "pglock-history-*.html")
	if err != nil {
		r.Fatal(err)
	}
	if err := errors.Join(porcupine.Visualize(r.model, info, picture), picture.Close()); err != nil {
		r.Error(err)
	}
	r.Logf("see %s", picture.Name())
}

// useLock takes a lock, checks it a few times, and releases it.
func (r *run) useLock(ctx context.Context, l *pglock.Locker) {
	asked := r.history.Now()
	lock, shared, err := acquire(ctx, l)
	if err != nil {
		if errors.Is(err, pglock.ErrLost) {
			r.Errorf("an acquire failed with %v", err)
		}
		return
	}
	u := &use{run: r, lock: lock, holder: r.history.Holder(), shared: shared, asked: asked}
	u.add(histories.Acquired, asked, r.history.Now())
	if r.fence != nil && !shared {
		u.drawToken(ctx)
	}
	work := lock.Context(context.Background())
	for range rand.IntN(4) {
		if rand.IntN(2) == 0 {
			u.look(lock.Err)
		} else {
			u.look(work.Err)
		}
		if rand.IntN(4) == 0 {
			_ = lock.Verify(ctx) //pglock:allow only to pass time; the end shows the result
		}
	}
	if r.stay > 0 && rand.IntN(20) == 0 {
		u.hold(ctx, rand.N(r.stay))
	}
	u.unlock()
}

// drawToken records a fencing token, which may be that of the grant.
func (u *use) drawToken(ctx context.Context) {
	token, err := u.fence(u.lock, ctx)
	if err == nil {
		for _, key := range u.lock.Keys() {
			u.history.Add(histories.Entry{
				Key: key.String(), Holder: u.holder, Event: histories.Fenced, Fence: token, From: u.asked, To: u.history.Now(),
			})
		}
	} else if ctx.Err() == nil && !errors.Is(err, pglock.ErrLost) && !errors.Is(err, pglock.ErrUnavailable) {
		u.Errorf("Fence: %v", err)
	}
}

// hold keeps checking the lock.
func (u *use) hold(ctx context.Context, d time.Duration) {
	for end := time.Now().Add(d); ctx.Err() == nil && u.lock.Err() == nil && time.Now().Before(end); {
		u.look(u.lock.Err)
		time.Sleep(5 * time.Millisecond)
	}
}

// acquire takes one lock or two, by a method chosen at random, and waits only briefly.
func acquire(ctx context.Context, l *pglock.Locker) (lock *pglock.Lock, shared bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, rand.N(50*time.Millisecond))
	defer cancel()
	var opts []pglock.LockOption
	if shared = rand.IntN(3) == 0; shared {
		opts = append(opts, pglock.Shared())
	}
	i := rand.IntN(len(keys))
	switch rand.IntN(5) {
	case 0:
		lock, err = l.TryLock(ctx, keys[i], opts...)
	case 1:
		lock, err = l.LockAll(ctx, []pglock.Key{keys[i], keys[(i+1)%len(keys)]}, opts...)
	default:
		lock, err = l.Lock(ctx, keys[i], opts...)
	}
	return lock, shared, err
}

// use is one lock from its grant to its end.
type use struct {
	*run
	lock   *pglock.Lock
	holder int
	shared bool
	asked  time.Duration
}

func (u *use) add(event histories.Event, from, to time.Duration) {
	for _, key := range u.lock.Keys() {
		u.history.Add(histories.Entry{Key: key.String(), Holder: u.holder, Shared: u.shared, Event: event, From: from, To: to})
	}
}

func (u *use) look(err func() error) {
	from := u.history.Now()
	if err() == nil && u.looks {
		u.add(histories.Held, from, u.history.Now())
	}
}

// unlock ends the use. A lost lock may have been lost since its grant, before the acquire returned; one whose state is
// unknown may be held for ever.
func (u *use) unlock() {
	from := u.history.Now()
	err := u.lock.Unlock(context.Background())
	switch {
	case err == nil:
		u.add(histories.Released, from, u.history.Now())
	case errors.Is(err, pglock.ErrLost):
		u.add(histories.Lost, u.asked, u.history.Now())
	case errors.Is(err, pglock.ErrUnavailable):
		u.add(histories.Lost, u.asked, histories.Never)
	default:
		u.Errorf("Unlock: %v", err)
	}
}

// The only fault is that acquires are cancelled at any moment.
func TestLocksAreLinearizable(t *testing.T) {
	db := testenv.Database(t)
	r := &run{T: t, history: histories.New(), looks: true}
	for range 3 {
		r.open(db.Config(t))
	}
	r.work(func(ctx context.Context) { <-ctx.Done() })
}

// The server is far away, so that statements overlap.
func TestLocksAreLinearizableAtADistance(t *testing.T) {
	db := testenv.Installed(t)
	r := &run{T: t, history: histories.New(), looks: true, fence: (*pglock.Lock).Fence}
	for range 2 {
		cfg := db.Config(t)
		cfg.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, address)
			return farConn{conn}, err
		}
		r.open(cfg)
	}
	r.work(func(ctx context.Context) { <-ctx.Done() })
}

// farConn reads everything a millisecond late.
type farConn struct{ net.Conn }

func (c farConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	time.Sleep(time.Millisecond)
	return n, err
}

// Sessions are terminated all the time. A holder may be notified a moment late, so it is no violation that a lost lock
// seems to be held; but it is one if its Unlock returns nil. (An Unlock that hands the lock off does not ask the
// server.)
func TestLocksAreLinearizableWhileSessionsAreTerminated(t *testing.T) {
	db := testenv.Database(t)
	admin := db.Connect(t)
	r := &run{T: t, history: histories.New()}
	for range 3 {
		r.open(db.Config(t), pglock.WithHandoffLimit(0, 0))
	}
	r.work(r.terminations(admin))
}

// terminations is the fault that ends one session after another.
func (r *run) terminations(admin *pgx.Conn) func(context.Context) {
	seen := 0
	return func(ctx context.Context) {
		enough := seen + 50
		for seen = r.history.Len(); seen < enough && ctx.Err() == nil; seen = r.history.Len() {
			time.Sleep(time.Millisecond)
		}
		if _, err := admin.Exec(context.Background(), `select pg_terminate_backend(pid) from (select pid from pg_stat_activity
			where datname = current_database() and application_name like 'at work (%' order by random() limit 1) as victim`); err != nil {
			r.Error(err)
		}
	}
}

// One process is cut off from the server for longer than its lease, again and again. It must not report a lock as held
// that another process has.
func TestLocksAreLinearizableWhileAProcessIsSilent(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	r := &run{T: t, history: histories.New(), looks: true}
	r.open(db.Config(t))
	r.open(db.Config(t))
	var mute atomic.Bool
	cfg := db.Config(t)
	cfg.ConnConfig.ConnectTimeout = time.Second
	cfg.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		return mutable{conn, &mute}, err
	}
	r.open(cfg, pglock.WithLease(time.Second))
	r.work(func(ctx context.Context) {
		for _, silent := range []bool{true, false} {
			mute.Store(silent)
			select {
			case <-ctx.Done():
			case <-time.After(1500 * time.Millisecond):
			}
		}
	})
}

// mutable is a connection that, while it is mute, drops everything in both directions.
type mutable struct {
	net.Conn
	mute *atomic.Bool
}

func (c mutable) Write(b []byte) (int, error) {
	if c.mute.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

func (c mutable) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if err != nil || !c.mute.Load() {
			return n, err
		}
	}
}

func TestLocksInRowsAreLinearizable(t *testing.T) {
	db := testenv.Installed(t)
	r := &run{T: t, history: histories.New(), looks: true, fence: (*pglock.Lock).Fence}
	for range 3 {
		l, err := rowlock.New(db.Pool(t))
		must.Succeed(t, err)
		r.add(l)
	}
	r.work(func(ctx context.Context) { <-ctx.Done() })
}

// Two servers that know nothing of each other are a broken lock.
func TestHistoriesOfABrokenLockAreRefused(t *testing.T) {
	for name, broken := range map[string]func(*run){
		"locks":   func(*run) {},
		"permits": (*run).semaphores,
		"tokens": func(r *run) {
			r.lockers = r.lockers[:1]
			r.fence = func(*pglock.Lock, context.Context) (int64, error) { return 7, nil }
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := &run{T: t, history: histories.New(), want: porcupine.Illegal}
			r.rest, r.stay = time.Millisecond, 20*time.Millisecond
			for range 2 {
				l, err := locktest.NewMemory()
				must.Succeed(t, err)
				r.add(l)
			}
			broken(r)
			r.work(func(ctx context.Context) { <-ctx.Done() })
		})
	}
}
