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
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
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
	must.Succeed(t, err)
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
		must.Succeed(t, err)
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
	for range 3 {
		tokens.drawAll(t, db, 20+rand.IntN(33), func() {
			must.Succeed(t, server.Down(t.Context(), pgserver.Immediate))
		})
		must.Succeed(t, server.Up(t.Context()))
		tokens.wantLarger(t, db.Config(t))
	}
	slices.Sort(tokens.all)
	if distinct := len(slices.Compact(slices.Clone(tokens.all))); distinct < len(tokens.all) {
		t.Errorf("of %d tokens %d were given twice", len(tokens.all), len(tokens.all)-distinct)
	}
}

// fenceEndLocks ends the sessions that hold locks.
const fenceEndLocks = `SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND granted
	AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`

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
		return must.One[int64](t, observer, "select last_value from pglock.fence") >= 2
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
	l := openLocker(t, db)
	first, second := mustLock(t, l, pglock.NewKey("first")), mustLock(t, l, pglock.NewKey("second"))
	one, err := first.Fence(minuteContext(t))
	must.Succeed(t, err)
	if n := must.One[int64](t, db.Connect(t), `select count(pg_terminate_backend(pid)) from pg_stat_activity as a
		where datname = current_database() and pid <> pg_backend_pid()
		and not exists (select from pg_locks as l where l.pid = a.pid and l.locktype = 'advisory')`); n < 1 {
		t.Error("there was no connection to terminate, so this test shows nothing")
	}
	if two, err := second.Fence(minuteContext(t)); err != nil || two <= one {
		t.Errorf("after the end of the connection: %d after %d, %v", two, one, err)
	}
	mustUnlock(t, first)
	mustUnlock(t, second)
}

// The commit waits for a standby that does not exist. A draw that is sent again takes the place of the one before on the server,
// and one whose wait was cancelled, which PostgreSQL commits with a warning, gives no token.
func TestFenceWaitsForTheStandbyOnOneProcess(t *testing.T) {
	t.Parallel()
	db := testenv.On(t, testenv.NewServer(t, nil))
	migrate(t, db)
	l, _ := openConfig(t, db.Config(t), pglock.WithLease(2*time.Second))
	lock, observer := mustLock(t, l, pglock.NewKey("k")), db.Connect(t)
	withdraw := testenv.RequireStandby(t, db)
	drawn := make(chan error, 1)
	go func() { _, err := lock.Fence(minuteContext(t)); drawn <- err }()
	const hanging = " from pg_stat_activity where wait_event = 'SyncRep'"
	testenv.WaitUntil(t, "the second draw waits alone", func() bool {
		return must.One[int64](t, observer, "select last_value from pglock.fence") >= 2 && must.One[int64](t, observer, "select count(*)"+hanging) == 1
	})
	var err error
	testenv.WaitUntil(t, "the draw whose waits are cancelled fails", func() bool {
		must.One[int64](t, observer, "select count(pg_cancel_backend(pid))"+hanging)
		select {
		case err = <-drawn:
			return true
		default:
			return false
		}
	})
	if !errors.Is(err, pglock.ErrUnavailable) {
		t.Errorf("a token that no standby has, or %v", err)
	}
	withdraw()
	mustUnlock(t, lock)
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
	must.Succeed(t, err)
	tx, err := db.Connect(t).Begin(minuteContext(t))
	must.Succeed(t, err)
	if _, err := tx.Exec(minuteContext(t), "LOCK TABLE pg_catalog.pg_proc, pg_catalog.pg_type, pg_catalog.pg_operator IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	if token, err := lock.Fence(minuteContext(t)); err != nil || token <= first {
		t.Errorf("%d after %d, %v", token, first, err)
	}
	must.Succeed(t, tx.Rollback(minuteContext(t)))
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
	if waiting := must.One[int64](t, observer, fenceWaiting); waiting != 1 {
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
	testenv.WaitUntil(t, "the draw waits", func() bool { return must.One[int64](t, observer, fenceWaiting) == 1 })
}
