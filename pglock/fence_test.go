package pglock_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/pgserver"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/pglock"
)

// fenceTokens are the tokens that holders were given.
type fenceTokens struct {
	mu  sync.Mutex
	all []int64
}

func (f *fenceTokens) add(token int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(f.all, token)
}

func (f *fenceTokens) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.all)
}

func (f *fenceTokens) largest() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Max(f.all)
}

// wantLarger draws the next token.
func (f *fenceTokens) wantLarger(t *testing.T, config *pgxpool.Config) {
	t.Helper()
	largest := f.largest()
	l, err := pglock.NewWithConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	defer closeWithinAMinute(t, l)
	lock := mustLock(t, l, pglock.NewKey("next"))
	token, err := lock.Fence(minuteContext(t))
	if err != nil || token <= largest {
		t.Errorf("the next token is %d, %v; a holder before had %d", token, err, largest)
	}
	f.add(token)
	mustUnlock(t, lock)
}

// drawAll has several Lockers draw tokens, each time for another holder, until enough have been drawn; then it calls
// crash while they go on.
func (f *fenceTokens) drawAll(t *testing.T, db *testenv.DB, enough int, crash func()) {
	t.Helper()
	const lockers = 6
	ctx, stop := context.WithCancel(minuteContext(t))
	drawn := make(chan struct{}, 1)
	target := f.count() + enough
	var holders sync.WaitGroup
	for i := range lockers {
		l, err := pglock.NewWithConfig(db.Config(t), pglock.WithSessions(1))
		if err != nil {
			t.Fatal(err)
		}
		holders.Go(func() {
			for ctx.Err() == nil {
				f.drawOne(ctx, l, i)
				if f.count() >= target {
					select {
					case drawn <- struct{}{}:
					default:
					}
				}
			}
			_ = l.Close(context.Background()) // the server may be down
		})
	}
	<-drawn
	crash()
	stop()
	holders.Wait()
}

func (f *fenceTokens) drawOne(ctx context.Context, l *pglock.Locker, holder int) {
	lock, err := l.Lock(ctx, pglock.NewKey("holder "+strconv.Itoa(holder)))
	if err != nil {
		return // the server is down
	}
	if token, err := lock.Fence(ctx); err == nil {
		f.add(token)
	}
	_ = lock.Unlock(ctx)
}

// The server flushes WAL late, as a slow disk does: commit_delay makes each flush wait, and nothing else writes.
func TestLongFenceDoesNotGoBackAfterACrash(t *testing.T) {
	t.Parallel()
	server := testenv.NewServer(t, map[string]string{
		"fsync": "on", "commit_delay": "100000", "commit_siblings": "0", "wal_writer_delay": "10s", "wal_writer_flush_after": "1GB",
	})
	db := testenv.On(t, server)
	migrate(t, db)
	var tokens fenceTokens
	for range testenv.Trials(t, 3) {
		tokens.drawAll(t, db, 20+rand.IntN(33), func() {
			if err := server.Down(t.Context(), pgserver.Immediate); err != nil {
				t.Fatal(err)
			}
		})
		if err := server.Up(t.Context()); err != nil {
			t.Fatal(err)
		}
		tokens.wantLarger(t, db.Config(t))
	}
	slices.Sort(tokens.all)
	if distinct := len(slices.Compact(slices.Clone(tokens.all))); distinct < len(tokens.all) {
		t.Errorf("of %d tokens %d were given twice", len(tokens.all), len(tokens.all)-distinct)
	}
}

// While the synchronous standby is cut off there are no tokens, whatever happens to the draw and whatever the settings
// of the database are, and no lock is lost. The standby that is then promoted gives larger ones, and none of them to a
// holder whose lock is on the old primary.
func TestLongFenceDoesNotGoBackAfterAFailoverToASynchronousStandby(t *testing.T) {
	t.Parallel()
	primary := testenv.NewServer(t, nil)
	db := testenv.On(t, primary)
	migrate(t, db)
	withSettings(t, db, "synchronous_commit = off", "client_min_messages = error", "default_transaction_read_only = on",
		"default_transaction_isolation = serializable")
	standby, err := primary.Standby(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := standby.Stop(); err != nil {
			t.Error(err)
		}
	})
	admin := db.Connect(t)
	fenceExec(t, admin, "ALTER SYSTEM SET synchronous_standby_names = '*'")
	fenceExec(t, admin, "SELECT pg_reload_conf()")
	var tokens fenceTokens
	l := openLocker(t, db, pglock.WithLease(fenceLease))
	held := mustLock(t, l, pglock.NewKey("held"))
	token, err := held.Fence(minuteContext(t))
	if err != nil {
		t.Fatal(err)
	}
	tokens.add(token)
	var port atomic.Int32 // where new connections lead
	port.Store(int32(primary.Port()))
	stranded, kept := fenceLockSwitched(t, db, &port), fenceLockSwitched(t, db, &port)
	token, err = kept.lock.Fence(minuteContext(t))
	if err != nil {
		t.Fatal(err)
	}
	tokens.add(token)

	cutOff := fenceConnect(t, standby, db)
	fenceExec(t, cutOff, "ALTER SYSTEM SET primary_conninfo = ''; ALTER SYSTEM RESET synchronous_standby_names; SELECT pg_reload_conf()")
	testenv.WaitUntil(t, "the standby is cut off", func() bool {
		return number(t, admin, "select count(*) from pg_stat_replication") == 0
	})
	for _, end := range []string{"select pg_cancel_backend(pid)", "select pg_terminate_backend(pid)"} {
		tokens.wantNone(t, l, admin, end)
		if err := held.Verify(minuteContext(t)); err != nil {
			t.Errorf("%q cost another lock: %v", end, err)
		}
	}
	for range 40 { // more than PostgreSQL logs ahead
		lock := mustLock(t, l, pglock.NewKey("hasty"))
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if token, err := lock.Fence(ctx); err == nil {
			tokens.add(token)
		}
		cancel()
		mustUnlock(t, lock)
	}
	mustUnlock(t, held)

	fenceExec(t, cutOff, "SELECT pg_promote()")
	port.Store(int32(standby.Port()))
	if token, err := stranded.lock.Fence(minuteContext(t)); !errors.Is(err, pglock.ErrUnavailable) || errors.Is(err, pglock.ErrLost) {
		t.Errorf("the holder of a lock on the old primary was given %d, %v", token, err)
	}
	config := db.Config(t)
	config.ConnConfig.Port = uint16(standby.Port())
	tokens.wantLarger(t, config)

	// A connection for draws that still leads to the old primary, which gives tokens again, is replaced.
	fenceExec(t, admin, "ALTER SYSTEM RESET synchronous_standby_names; SELECT pg_reload_conf(); "+fenceEndLocks)
	awaitDone(t, kept.lock.Done(), "the end of the session")
	lock := mustLock(t, kept.locker, pglock.NewKey("moved"))
	if token, err := lock.Fence(minuteContext(t)); err != nil || token <= tokens.largest() {
		t.Errorf("with a connection to the old primary: the token is %d after %d, %v", token, tokens.largest(), err)
	}
	mustUnlock(t, lock)
	if err := primary.Down(t.Context(), pgserver.Immediate); err != nil { // the database could not be dropped
		t.Fatal(err)
	}
}

const fenceLease = time.Second

// wantNone has a draw wait for the standby, and ends that wait on the server. A draw whose session was terminated is
// repeated, and then waits for longer than the lease, so that a heartbeat has to keep the locks.
func (f *fenceTokens) wantNone(t *testing.T, l *pglock.Locker, admin *pgx.Conn, end string) {
	t.Helper()
	const waiting = " from pg_stat_activity where datname = current_database() and wait_event = 'SyncRep'"
	lock := mustLock(t, l, pglock.NewKey("waits for the standby"))
	ctx, cancel := context.WithTimeout(t.Context(), 3*fenceLease/2)
	defer cancel()
	failed := make(chan error, 1)
	go func() {
		token, err := lock.Fence(ctx)
		if err == nil {
			t.Errorf("%q: a token that the standby does not know was given: %d", end, token)
			f.add(token)
		}
		failed <- err
	}()
	testenv.WaitUntil(t, "the draw waits for the standby", func() bool {
		return len(failed) > 0 || number(t, admin, "select count(*)"+waiting) > 0
	})
	if len(failed) == 0 {
		fenceExec(t, admin, end+waiting)
	}
	if err := <-failed; !errors.Is(err, pglock.ErrUnavailable) {
		t.Errorf("%q: the error is %v", end, err)
	}
	mustUnlock(t, lock)
	testenv.WaitUntil(t, "no draw is left on the server", func() bool { return number(t, admin, "select count(*)"+waiting) == 0 })
}

// fenceEndLocks ends the sessions that hold locks.
const fenceEndLocks = `SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND granted
	AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`

type fenceHolder struct {
	locker *pglock.Locker
	lock   *pglock.Lock
}

// fenceLockSwitched takes a lock with a Locker whose new connections lead to the port.
func fenceLockSwitched(t *testing.T, db *testenv.DB, port *atomic.Int32) fenceHolder {
	t.Helper()
	config := db.Config(t)
	config.ConnConfig.DialFunc = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port.Load()))))
	}
	l, _ := openConfig(t, config)
	lock := mustLock(t, l, pglock.NewKey(strconv.Itoa(rand.Int())))
	t.Cleanup(func() { _ = lock.Unlock(context.Background()) }) // its server may be down
	return fenceHolder{l, lock}
}

func fenceConnect(t *testing.T, server *pgserver.Server, db *testenv.DB) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), server.ConnString(db.Name())+"&default_transaction_isolation=read%20committed")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) }) // the server may be down
	return conn
}

func fenceExec(t *testing.T, conn *pgx.Conn, statements string) {
	t.Helper()
	for sql := range strings.SplitSeq(statements, "; ") {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

// A holder is cut off, and its lock session ends, while its draw waits. The next holder then has the lock, so whichever
// token the draw brings is none.
func TestFenceGivesNoTokenToAHolderThatLostItsLockBeforeTheDrawEnded(t *testing.T) {
	t.Parallel()
	db := testenv.Installed(t)
	link := testenv.NewLink(0)
	t.Cleanup(link.Close)
	var dialled atomic.Int32
	config := db.Config(t)
	direct := config.ConnConfig.DialFunc
	config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		if dialled.Add(1) == 1 { // the lock session
			return link.Dial(ctx, network, address)
		}
		return direct(ctx, network, address)
	}
	l, _ := openConfig(t, config, pglock.WithSessions(1), pglock.WithLease(time.Minute))
	lock, other := mustLock(t, l, pglock.NewKey("k")), openLocker(t, db)
	admin, observer := db.Connect(t), db.Connect(t)
	fenceExec(t, admin, "BEGIN; LOCK TABLE pglock.fence_rows")
	ctx, cancel := context.WithCancel(minuteContext(t))
	drawn := make(chan error, 1)
	go func() { _, err := lock.Fence(ctx); drawn <- err }()
	fenceWaits(t, observer)

	link.Cut(true, true)
	fenceExec(t, observer, fenceEndLocks)
	next := mustLock(t, other, pglock.NewKey("k"))
	fenceExec(t, admin, "COMMIT")
	if _, err := next.Fence(minuteContext(t)); err != nil {
		t.Error(err)
	}
	// The draw has ended, since those of the process wait for each other, or will; only its holder can still be asked.
	testenv.WaitUntil(t, "both have drawn", func() bool {
		return number(t, observer, "select last_value from pglock.fence") >= 2
	})
	cancel()
	if err := <-drawn; !errors.Is(err, context.Canceled) {
		t.Errorf("the holder that had lost its lock got a token, or %v", err)
	}
	if err := lock.Err(); err != nil {
		t.Errorf("the holder had been told, so this test shows nothing: %v", err)
	}
	mustUnlock(t, next)
	link.Cut(false, false)
	awaitDone(t, lock.Done(), "the end of the session")
}

// The connection for draws is kept. Its end costs no error.
func TestFenceOutlivesTheEndOfItsConnection(t *testing.T) {
	t.Parallel()
	db := testenv.Installed(t)
	config := db.Config(t)
	direct, unreachable := config.ConnConfig.DialFunc, atomic.Bool{}
	config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		if unreachable.Load() {
			return nil, errors.New("unreachable")
		}
		return direct(ctx, network, address)
	}
	l, _ := openConfig(t, config)
	first, second := mustLock(t, l, pglock.NewKey("first")), mustLock(t, l, pglock.NewKey("second"))
	unreachable.Store(true)
	if _, err := first.Fence(minuteContext(t)); !errors.Is(err, pglock.ErrUnavailable) {
		t.Errorf("without a connection: %v", err)
	}
	unreachable.Store(false)
	one, err := first.Fence(minuteContext(t))
	if err != nil {
		t.Fatal(err)
	}
	terminated := number(t, db.Connect(t), `select count(pg_terminate_backend(pid)) from pg_stat_activity as a
		where datname = current_database() and pid <> pg_backend_pid()
		and not exists (select from pg_locks as l where l.pid = a.pid and l.locktype = 'advisory')`)
	if terminated < 1 {
		t.Error("there was no connection to terminate, so this test shows nothing")
	}
	if two, err := second.Fence(minuteContext(t)); err != nil || two <= one {
		t.Errorf("after the end of the connection: %d after %d, %v", two, one, err)
	}
	mustUnlock(t, first)
	mustUnlock(t, second)
}

// A session that has not been asked before looks up in the catalogs what a statement needs. If one of them is locked, as by
// VACUUM FULL, the wait would cost its locks. A lock that was waited for has such a session.
func TestFenceNeedsNoCatalogInTheSessionOfTheLock(t *testing.T) {
	t.Parallel()
	db := testenv.Installed(t)
	holder := openLocker(t, db)
	l := openLocker(t, db)
	held := mustLock(t, holder, pglock.NewKey("waited for"))
	granted := make(chan *pglock.Lock)
	go func() { granted <- mustLock(t, l, pglock.NewKey("waited for")) }()
	db.WaitForWaiters(t, 1)
	mustUnlock(t, held)
	lock, other := <-granted, mustLock(t, l, pglock.NewKey("other"))
	first, err := other.Fence(minuteContext(t)) // the connection for draws is open now
	if err != nil {
		t.Fatal(err)
	}
	tx, err := db.Connect(t).Begin(minuteContext(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(minuteContext(t), "LOCK TABLE pg_catalog.pg_proc, pg_catalog.pg_type, pg_catalog.pg_operator IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	if token, err := lock.Fence(minuteContext(t)); err != nil || token <= first {
		t.Errorf("%d after %d, %v", token, first, err)
	}
	if err := tx.Rollback(minuteContext(t)); err != nil {
		t.Fatal(err)
	}
	mustUnlock(t, lock)
	mustUnlock(t, other)
}

// Holders that draw at the same time share transactions, and each gets its own token.
func TestFenceOfManyHoldersSharesTheWaitForTheDisk(t *testing.T) {
	t.Parallel()
	const holders = 100
	db := testenv.Installed(t)
	l := openLocker(t, db)
	locks := make([]*pglock.Lock, holders)
	for i := range locks {
		locks[i] = mustLock(t, l, pglock.NewKey(strconv.Itoa(i)))
	}
	admin, observer := db.Connect(t), db.Connect(t)
	fenceExec(t, admin, "BEGIN; LOCK TABLE pglock.fence_rows")
	var tokens fenceTokens
	var drawing sync.WaitGroup
	for i, lock := range locks {
		drawing.Go(func() {
			token, err := lock.Fence(minuteContext(t))
			//pglock:allow the token says it
			if again, _ := lock.Fence(minuteContext(t)); err != nil || again != token {
				t.Errorf("the tokens are %d and %d, %v", token, again, err)
			}
			tokens.add(token)
		})
		if i == 0 {
			fenceWaits(t, observer)
		}
	}
	if waiting := number(t, observer, fenceWaiting); waiting != 1 {
		t.Errorf("%d draws of one process are on the server", waiting)
	}
	fenceExec(t, admin, "COMMIT")
	drawing.Wait()
	slices.Sort(tokens.all)
	if distinct := len(slices.Compact(slices.Clone(tokens.all))); distinct != holders {
		t.Errorf("%d holders have %d tokens", holders, distinct)
	}
	for _, lock := range locks {
		mustUnlock(t, lock)
	}
}

// fenceWaiting counts draws that wait for a lock on a table.
const fenceWaiting = `select count(*) from pg_locks where locktype = 'relation' and not granted
	and database = (select oid from pg_database where datname = current_database())`

func fenceWaits(t *testing.T, observer *pgx.Conn) {
	t.Helper()
	testenv.WaitUntil(t, "the draw waits", func() bool { return number(t, observer, fenceWaiting) == 1 })
}
