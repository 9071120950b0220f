package pglock_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/internal/pgserver"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
)

// mustLock takes the lock, or ends the test.
func mustLock(t *testing.T, l *pglock.Locker, key pglock.Key, opts ...pglock.LockOption) *pglock.Lock {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	lock, err := l.Lock(ctx, key, opts...)
	must.Succeed(t, err)
	return lock
}

func mustUnlock(t *testing.T, lock *pglock.Lock) {
	t.Helper()
	if err := lock.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
}

func wantLost(t *testing.T, err error, reason pglock.LostReason) {
	t.Helper()
	lost := (*pglock.LostError)(nil)
	if !errors.As(err, &lost) || !errors.Is(err, pglock.ErrLost) || lost.Reason != reason {
		t.Errorf("the error is %v, want a lost lock of reason %s", err, reason)
	}
	for _, other := range []error{pglock.ErrUnavailable, pglock.ErrNotAcquired} {
		if errors.Is(err, other) {
			t.Errorf("%v also matches %v", err, other)
		}
	}
}

func awaitDone(t *testing.T, done <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatalf("timed out waiting for %s", what)
	}
}

// onlySession returns the process ID of the one session that holds or waits for an advisory lock, as granted says.
func onlySession(t *testing.T, db *testenv.DB, granted bool) int32 {
	t.Helper()
	var pids []int32
	for _, l := range db.AdvisoryLocks(t) {
		if l.Granted == granted && !slices.Contains(pids, l.PID) { // a lock that MaxHold has ended may still be there
			pids = append(pids, l.PID)
		}
	}
	if len(pids) != 1 {
		t.Fatalf("there are sessions %v, want one", pids)
	}
	return pids[0]
}

func terminate(t *testing.T, admin *pgx.Conn, pid int32) {
	t.Helper()
	var ended bool
	if err := admin.QueryRow(t.Context(), "select pg_terminate_backend($1)", pid).Scan(&ended); err != nil || !ended {
		t.Fatalf("terminate %d: %v, %v", pid, ended, err)
	}
}

func TestFaultsATerminatedSessionEndsTheLock(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	admin := db.Connect(t)
	l, other := openLocker(t, db), openLocker(t, db)
	key := pglock.NewKey("k")
	const times = 5
	for range times {
		lock := mustLock(t, l, key)
		work := lock.Context(t.Context())
		waiter := make(chan *pglock.Lock)
		go func() { waiter <- mustLock(t, other, key) }()
		db.WaitForWaiters(t, 1)
		terminate(t, admin, onlySession(t, db, true))
		next := <-waiter
		awaitDone(t, work.Done(), "the context of a lost lock")
		wantLost(t, context.Cause(work), pglock.LostSession)
		wantLost(t, lock.Verify(t.Context()), pglock.LostSession)
		wantLost(t, lock.Unlock(t.Context()), pglock.LostSession)
		mustUnlock(t, next)
	}
	if stats := l.Stats(); stats.Lost != times || stats.Held != 0 {
		t.Errorf("in the end: %+v", stats)
	}
}

// The end of a wait session whose lock was granted is noticed too, although no heartbeat is sent within this test.
func TestFaultsTheEndOfASessionThatHasWaitedIsNoticed(t *testing.T) {
	db := testenv.Database(t)
	admin := db.Connect(t)
	l, other := openLocker(t, db, pglock.WithLease(24*time.Hour)), openLocker(t, db)
	key := pglock.NewKey("k")
	for i := range 6 {
		held := mustLock(t, other, key)
		waiter := make(chan *pglock.Lock)
		go func() { waiter <- mustLock(t, l, key) }()
		db.WaitForWaiters(t, 1)
		mustUnlock(t, held)
		lock := <-waiter
		if i%2 == 1 { // takes the session from the goroutine that reads, and returns it
			if err := lock.Verify(t.Context()); err != nil {
				t.Error(err)
			}
		}
		work := lock.Context(t.Context())
		terminate(t, admin, onlySession(t, db, true))
		awaitDone(t, work.Done(), "the context of a lost lock")
		wantLost(t, context.Cause(work), pglock.LostSession)
	}
}

func TestFaultsAWaiterWhoseSessionEndsAsksAgain(t *testing.T) {
	db := testenv.Database(t)
	admin := db.Connect(t)
	l, other := openLocker(t, db), openLocker(t, db)
	key := pglock.NewKey("k")
	lock := mustLock(t, l, key)
	waiter := make(chan *pglock.Lock)
	go func() { waiter <- mustLock(t, other, key) }()
	for range 3 {
		db.WaitForWaiters(t, 1)
		pid := onlySession(t, db, false)
		terminate(t, admin, pid)
		testenv.WaitUntil(t, "the session is gone", func() bool {
			for _, l := range db.AdvisoryLocks(t) {
				if l.PID == pid {
					return false
				}
			}
			return true
		})
	}
	db.WaitForWaiters(t, 1)
	mustUnlock(t, lock)
	mustUnlock(t, <-waiter)
}

func TestFaultsAWaitCancelledOnTheServerIsAWaitError(t *testing.T) {
	db := testenv.Database(t)
	l, other := openLocker(t, db), openLocker(t, db)
	lock := mustLock(t, l, pglock.NewKey("k"))
	failed := make(chan error)
	go func() {
		_, err := other.Lock(t.Context(), pglock.NewKey("k"))
		failed <- err
	}()
	db.WaitForWaiters(t, 1)
	if _, err := db.Connect(t).Exec(t.Context(), "select pg_cancel_backend($1)", onlySession(t, db, false)); err != nil {
		t.Fatal(err)
	}
	err := <-failed
	if wait := (*pglock.WaitError)(nil); !errors.As(err, &wait) || !errors.Is(err, pglock.ErrNotAcquired) {
		t.Errorf("a wait cancelled on the server: %v", err)
	}
	mustUnlock(t, lock)
}

func TestFaultsARestartOfTheServerEndsLocksAndTheLockerGoesOn(t *testing.T) {
	t.Parallel()
	server := testenv.NewServer(t, nil)
	db := testenv.On(t, server)
	l := openLocker(t, db)
	key := pglock.NewKey("k")
	lock := mustLock(t, l, key)
	other := openLocker(t, db)
	waiting := make(chan error)
	go func() {
		_, err := other.Lock(t.Context(), key)
		waiting <- err
	}()
	db.WaitForWaiters(t, 1)
	must.Succeed(t, server.Down(t.Context(), pgserver.Immediate))
	awaitDone(t, lock.Done(), "the end of the lock")
	wantLost(t, lock.Err(), pglock.LostSession)
	if err := <-waiting; !errors.Is(err, pglock.ErrUnavailable) || errors.Is(err, pglock.ErrNotAcquired) {
		t.Errorf("a wait that the end of the server ended: %v", err)
	}
	if _, err := l.Lock(t.Context(), key); !errors.Is(err, pglock.ErrUnavailable) || errors.Is(err, pglock.ErrNotAcquired) {
		t.Errorf("Lock without a server: %v", err)
	}
	if _, err := l.TryLock(t.Context(), key); !errors.Is(err, pglock.ErrUnavailable) || errors.Is(err, pglock.ErrNotAcquired) {
		t.Errorf("TryLock without a server: %v", err)
	}
	must.Succeed(t, server.Up(t.Context()))
	mustUnlock(t, mustLock(t, l, key))
}

// The role's timeouts would end everything that the library depends on. A control session of the same role shows that
// they work.
func TestFaultsTimeoutsOfTheRoleDoNotReachLockSessions(t *testing.T) {
	db := testenv.Database(t)
	admin := db.Connect(t)
	config, err := pgx.ParseConfig(db.Role(t, "hostile"))
	must.Succeed(t, err)
	for _, setting := range []string{
		"statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout", "idle_session_timeout",
	} {
		if _, err := admin.Exec(t.Context(), "alter role "+pgx.Identifier{config.User}.Sanitize()+" set "+setting+" = 200"); err != nil {
			t.Fatal(err)
		}
	}
	cfg, err := pgxpool.ParseConfig(config.ConnString())
	must.Succeed(t, err)
	l, err := pglock.NewWithConfig(cfg)
	must.Succeed(t, err)
	key := pglock.NewKey("k")
	lock := mustLock(t, l, key)
	waiter := make(chan *pglock.Lock)
	l2, err := pglock.NewWithConfig(cfg)
	must.Succeed(t, err)
	go func() { waiter <- mustLock(t, l2, key) }()
	db.WaitForWaiters(t, 1)

	control, err := pgx.ConnectConfig(t.Context(), config)
	must.Succeed(t, err)
	if _, err := control.Exec(t.Context(), "select pg_advisory_lock($1)", key.Int64()); err == nil {
		t.Error("the control's wait was not ended, so this test shows nothing")
	}
	if err := control.PgConn().WaitForNotification(t.Context()); err == nil {
		t.Error("the control's idle session was not ended, so this test shows nothing")
	}
	if err := lock.Verify(t.Context()); err != nil {
		t.Error(err)
	}
	db.WaitForWaiters(t, 1)
	mustUnlock(t, lock)
	mustUnlock(t, <-waiter)
	for _, l := range []*pglock.Locker{l, l2} {
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// A holder's network drops everything, in both directions or only one: its lock must have ended before the next grant.
func TestFaultsASilentHolderIsToldBeforeTheNextGrant(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	key := pglock.NewKey("k")
	for _, cut := range []struct {
		name     string
		up, down bool
	}{{"both", true, true}, {"to the server", true, false}, {"to the client", false, true}} {
		t.Run(cut.name, func(t *testing.T) {
			for range 2 {
				link, config := newProxy(t, db)
				cut1 := func() { link.Cut(cut.up, cut.down) }
				silent, err := pglock.NewWithConfig(config, pglock.WithLease(time.Second))
				must.Succeed(t, err)
				next := openLocker(t, db)
				lock := mustLock(t, silent, key)
				work := lock.Context(t.Context())
				granted := make(chan error, 1)
				go func() {
					after := mustLock(t, next, key)
					granted <- work.Err() // at the moment of the grant
					mustUnlock(t, after)
				}()
				testenv.WaitUntil(t, "the next holder waits, or has the lock since the lease is over on a slow machine", func() bool {
					return len(granted) == 1 || slices.ContainsFunc(db.AdvisoryLocks(t), func(l testenv.Lock) bool { return !l.Granted })
				})
				cut1()
				if err := <-granted; err == nil {
					t.Error("the next holder got the lock before the last one's context ended")
				}
				wantLost(t, context.Cause(work), pglock.LostLease)
				if err := lock.Unlock(t.Context()); !errors.Is(err, pglock.ErrLost) {
					t.Errorf("Unlock: %v", err)
				}
				_ = silent.Close(t.Context()) // it cannot send a Terminate message
			}
		})
	}
}

// The server's process is frozen, so that it neither answers nor frees the lock: the client must stop trusting it by
// itself.
func TestFaultsAFrozenServerProcessEndsTheLock(t *testing.T) {
	t.Parallel()
	db := testenv.On(t, testenv.NewServer(t, nil)) // surely on this machine
	l := openLocker(t, db, pglock.WithLease(time.Second))
	lock := mustLock(t, l, pglock.NewKey("k"))
	pid := int(onlySession(t, db, true))
	must.Succeed(t, syscall.Kill(pid, syscall.SIGSTOP))
	awaitDone(t, lock.Done(), "the end of the lease")
	wantLost(t, lock.Err(), pglock.LostLease)
	must.Succeed(t, syscall.Kill(pid, syscall.SIGCONT))
	mustUnlock(t, mustLock(t, l, pglock.NewKey("k")))
}

// Behind a proxy that shares server sessions among clients, a statement that was prepared on one session may run on
// another. All statements that lock name their session.
func TestFaultsAStatementOfAnotherSessionChangesNothing(t *testing.T) {
	db := testenv.Database(t)
	conn := db.Connect(t)
	const plain, sum = "select pg_advisory_lock(1)", "select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()"
	if _, err := conn.Exec(t.Context(), plain); err != nil {
		t.Fatal(err)
	}
	elsewhere := int32(conn.PgConn().PID()) + 1
	keys, kinds := []int64{1, 2}, []int16{4, 0}
	for name, args := range map[string][]any{
		lockdb.TryOne:      {keys[1], elsewhere},
		lockdb.UnlockOne:   {keys[0], elsewhere},
		lockdb.PlainBatch:  {keys[:1], keys[1:], elsewhere},
		lockdb.Batch:       {kinds, keys, elsewhere},
		lockdb.LockSession: {elsewhere, kinds[1], keys[1]},
	} {
		if _, err := conn.Exec(t.Context(), name, args...); err != nil {
			t.Errorf("%s\n%v", name, err)
		}
		if n := must.One[int64](t, conn, sum); n != 1 {
			t.Fatalf("%s\nleft %d locks, want the one that was there", name, n)
		}
	}
}

func TestFaultsAPoolerIsRefusedBeforeAnythingIsLocked(t *testing.T) {
	db := testenv.Database(t)
	for _, mode := range []testenv.Pooling{testenv.TransactionPooling, testenv.SessionPooling} {
		cfg, err := pgxpool.ParseConfig(testenv.PgBouncer(t, db, mode))
		must.Succeed(t, err)
		l, err := pglock.NewWithConfig(cfg)
		must.Succeed(t, err)
		if err := l.Ping(t.Context()); !errors.Is(err, pglock.ErrPooler) || !strings.Contains(err.Error(), "NewWithConfig") {
			t.Errorf("%s: Ping: %v", mode, err)
		}
		if _, err := l.Lock(t.Context(), pglock.NewKey("k")); !errors.Is(err, pglock.ErrPooler) {
			t.Errorf("%s: Lock: %v", mode, err)
		}
		if locks := db.AdvisoryLocks(t); len(locks) != 0 {
			t.Errorf("%s: a refused lock was taken: %v", mode, locks)
		}
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	cfg, err := pgxpool.ParseConfig(testenv.PgBouncer(t, db, testenv.SessionPooling))
	must.Succeed(t, err)
	l, err := pglock.NewWithConfig(cfg, pglock.AllowPooler())
	must.Succeed(t, err)
	defer closeLocker(t, l)
	lock := mustLock(t, l, pglock.NewKey("k"))
	ctx, cancel := context.WithCancel(t.Context())
	waited := make(chan error)
	direct := openLocker(t, db)
	go func() {
		_, err := direct.Lock(ctx, pglock.NewKey("k"))
		waited <- err
	}()
	db.WaitForWaiters(t, 1)
	cancel()
	if err := <-waited; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	// Some versions of PgBouncer crash when a cancel request is given up on its way.
	held := mustLock(t, direct, pglock.NewKey("held"))
	for range 20 {
		_, err := l.Lock(t.Context(), held.Key(), pglock.MaxWait(10*time.Millisecond))
		if !errors.Is(err, pglock.ErrNotAcquired) {
			t.Errorf("a wait that ends, behind PgBouncer: %v", err)
		}
	}
	mustUnlock(t, held)
	if err := lock.Verify(t.Context()); err != nil {
		t.Error(err)
	}
	mustUnlock(t, lock)
}

func TestFaultsUnreachableServersAreUnavailable(t *testing.T) {
	db := testenv.Database(t)
	for name, change := range map[string]func(*pgxpool.Config){
		"a closed port": func(c *pgxpool.Config) {
			c.ConnConfig.Port, c.ConnConfig.Fallbacks, c.ConnConfig.Password = 1, nil, "s3cret"
		},
		"no room for the role": func(c *pgxpool.Config) {
			role, err := pgx.ParseConfig(db.Role(t, "crowded"))
			must.Succeed(t, err)
			if _, err := db.Connect(t).Exec(t.Context(), "alter role "+pgx.Identifier{role.User}.Sanitize()+" connection limit 0"); err != nil {
				t.Fatal(err)
			}
			c.ConnConfig.User, c.ConnConfig.Password = role.User, role.Password
		},
	} {
		cfg := db.Config(t)
		change(cfg)
		l, err := pglock.NewWithConfig(cfg)
		must.Succeed(t, err)
		_, err = l.Lock(t.Context(), pglock.NewKey("k"), pglock.MaxWait(time.Minute))
		if !errors.Is(err, pglock.ErrUnavailable) || errors.Is(err, pglock.ErrDenied) || errors.Is(err, pglock.ErrNotAcquired) ||
			strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", name, err)
		}
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if _, err := pglock.Open(t.Context(), "postgres://u:s3cret@[::1:bad"); err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("a malformed DSN: %v", err)
	}
}

func TestFaultsTooManyLocksAreRefused(t *testing.T) {
	db := testenv.Database(t)
	l := openLocker(t, db, pglock.WithMaxHeld(2))
	a := mustLock(t, l, pglock.NewKey("a"))
	b := mustLock(t, l, pglock.NewKey("b"))
	if _, err := l.TryLock(t.Context(), pglock.NewKey("c")); !errors.Is(err, pglock.ErrTooManyLocks) {
		t.Errorf("one key too many: %v", err)
	}
	mustUnlock(t, a)
	mustUnlock(t, mustLock(t, l, pglock.NewKey("c")))
	mustUnlock(t, b)
}

func TestFaultsNamesReachTheRegistry(t *testing.T) {
	db := testenv.Database(t)
	l := openLocker(t, db, pglock.WithNames())
	if err := l.Ping(t.Context()); !errors.Is(err, pglock.ErrSchemaMissing) {
		t.Errorf("Ping without the schema: %v", err)
	}
	mustUnlock(t, mustLock(t, l, pglock.NewKey("before"))) // locks work regardless
	migrate(t, db)
	if err := l.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"invoice:42", "日本語/注文"} {
		mustUnlock(t, mustLock(t, l, pglock.NewKey(name)))
	}
	mustUnlock(t, mustLock(t, l, pglock.Int64Key(1)))
	conn := db.Connect(t)
	testenv.WaitUntil(t, "the names are there", func() bool {
		var names int
		err := conn.QueryRow(t.Context(), `select count(*) from pglock.names where name in ('invoice:42', '日本語/注文')`).Scan(&names)
		return err == nil && names == 2
	})
}

func TestFaultsFenceNeedsTheSchema(t *testing.T) {
	db := testenv.Database(t)
	l := openLocker(t, db)
	lock := mustLock(t, l, pglock.NewKey("k"))
	if _, err := lock.Fence(t.Context()); !errors.Is(err, pglock.ErrSchemaMissing) {
		t.Errorf("Fence without the schema: %v", err)
	}
	migrate(t, db)
	if n, err := lock.Fence(t.Context()); err != nil || n < 1 {
		t.Errorf("Fence: %d, %v", n, err)
	}
	mustUnlock(t, lock)
	if _, err := db.Pool(t).Exec(t.Context(), "SELECT setval('pglock.fence', 9223372036854775807)"); err != nil {
		t.Fatal(err)
	}
	lock = mustLock(t, l, pglock.NewKey("k"))
	if _, err := lock.Fence(t.Context()); !errors.Is(err, pglock.ErrUnavailable) || !strings.Contains(err.Error(), "no fencing tokens are left") {
		t.Errorf("Fence after the last token: %v", err)
	}
	mustUnlock(t, lock)
}

// The schema is dropped while Fence waits for the end of the transaction that does it.
func TestFaultsFenceOfASchemaThatIsBeingDropped(t *testing.T) {
	for name, then := range map[string]string{"dropped": "SELECT 1", "replaced": `CREATE SCHEMA pglock; CREATE SEQUENCE pglock.fence;
		CREATE FUNCTION pglock.fence_draw(integer) RETURNS bigint[] LANGUAGE sql AS 'SELECT ARRAY[nextval(''pglock.fence'')]'`} {
		t.Run(name, func(t *testing.T) {
			db := testenv.Installed(t)
			l := openLocker(t, db)
			lock := mustLock(t, l, pglock.NewKey("k"))
			admin := db.Connect(t)
			if _, err := admin.Exec(t.Context(), "BEGIN; DROP SCHEMA pglock CASCADE;"+then); err != nil {
				t.Fatal(err)
			}
			drawn := make(chan error, 1)
			go func() { _, err := lock.Fence(t.Context()); drawn <- err }()
			testenv.WaitUntil(t, "Fence waits for the sequence", func() (waits bool) {
				err := admin.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'relation'
					AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`).Scan(&waits)
				return err == nil && waits
			})
			if _, err := admin.Exec(t.Context(), "COMMIT"); err != nil {
				t.Fatal(err)
			}
			err := <-drawn
			switch {
			case name == "replaced":
				if err != nil {
					t.Errorf("Fence: %v", err)
				}
			case !errors.Is(err, pglock.ErrSchemaMissing) || !strings.Contains(err.Error(), "pglock migrate up"):
				t.Errorf("Fence: %v", err)
			}
			mustUnlock(t, lock)
		})
	}
}

// BeforeConnect may hand out short-lived passwords: sessions must not be dialled without it.
func TestFaultsBeforeConnectIsHonoured(t *testing.T) {
	db := testenv.Database(t)
	cfg := db.Config(t)
	user := cfg.ConnConfig.User
	cfg.ConnConfig.User = "no_such_role"
	calls := 0
	cfg.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
		calls++
		c.User = user
		return nil
	}
	cfg.AfterConnect = func(context.Context, *pgx.Conn) error { return errors.New("must not be called") }
	l, err := pglock.NewWithConfig(cfg)
	must.Succeed(t, err)
	mustUnlock(t, mustLock(t, l, pglock.NewKey("k")))
	if err := l.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if calls == 0 {
		t.Error("BeforeConnect was not called")
	}
}
