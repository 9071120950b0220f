package pglock_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
)

// guardLater guards a transaction of conn in the background.
func guardLater(t *testing.T, conn *pgx.Conn, lock *pglock.Lock) <-chan pgx.Tx {
	guarded := make(chan pgx.Tx, 1)
	go func() { guarded <- mustGuard(t, conn, lock) }()
	return guarded
}

// wantBlocked waits until conn waits for all of the others, and for nothing else.
func wantBlocked(t *testing.T, db *testenv.DB, conn *pgx.Conn, by ...*pgx.Conn) {
	t.Helper()
	pids := make([]int32, len(by))
	for i, conn := range by {
		pids[i] = int32(conn.PgConn().PID())
	}
	admin := db.Connect(t)
	testenv.WaitUntil(t, "the transaction waits for the earlier ones", func() bool {
		return must.One[int64](t, admin, `select (count(*) = $3 and bool_and(pid = any($2)))::int
			from unnest(pg_blocking_pids($1)) as pid`, conn.PgConn().PID(), pids, len(pids)) == 1
	})
}

func commit(t *testing.T, txs ...pgx.Tx) {
	t.Helper()
	for _, tx := range txs {
		if err := tx.Commit(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestGuardTxOfOneLockRunsSideBySide(t *testing.T) {
	for name, opts := range map[string][]pglock.LockOption{"exclusive": nil, "shared": {pglock.Shared()}} {
		t.Run(name, func(t *testing.T) {
			db := testenv.Database(t)
			key := pglock.NewKey("k")
			a, b, c := db.Connect(t), db.Connect(t), db.Connect(t)
			lock := mustLock(t, openLocker(t, db), key, opts...)
			first := mustGuard(t, a, lock)
			second := mustGuard(t, b, lock)
			mustUnlock(t, lock)

			log := newLogBook()
			next := mustLock(t, openLocker(t, db, log.option(), pglock.WithWarnAfter(50*time.Millisecond)), key)
			third := guardLater(t, c, next)
			wantBlocked(t, db, c, a, b)
			testenv.WaitUntil(t, "the log shows it", func() bool { return log.lines(`"waiting for a lock" key=k use=transaction`) != nil })
			commit(t, first)
			wantBlocked(t, db, c, b)
			commit(t, second)
			commit(t, <-third)
			mustUnlock(t, next)
		})
	}
}

// A lock that is handed off within this process, without asking the server, has a new holder too.
func TestGuardTxIsInOrderAfterAHandoff(t *testing.T) {
	db := testenv.Database(t)
	key := pglock.NewKey("k")
	a, b := db.Connect(t), db.Connect(t)
	l := openLocker(t, db, pglock.WithHandoffLimit(1000, time.Minute))
	lock := mustLock(t, l, key)
	next := lockLater(t, l, key)
	testenv.WaitUntil(t, "the next one waits", func() bool { return l.Stats().Waiting == 1 })
	earlier := mustGuard(t, a, lock)
	mustUnlock(t, lock)
	after := <-next
	if l.Stats().HandedOff != 1 {
		t.Error("the lock was not handed off")
	}
	later := guardLater(t, b, after)
	wantBlocked(t, db, b, a)
	commit(t, earlier)
	commit(t, <-later)
	mustUnlock(t, after)
}

func TestGuardTxKeepsReadersAndWritersInOrder(t *testing.T) {
	db := testenv.Database(t)
	key := pglock.PairKey(1, 2)
	one, other := openLocker(t, db), openLocker(t, db)
	a, b, c := db.Connect(t), db.Connect(t), db.Connect(t)

	readers := []*pglock.Lock{mustLock(t, one, key, pglock.Shared()), mustLock(t, other, key, pglock.Shared())}
	first, second := mustGuard(t, a, readers[0]), mustGuard(t, b, readers[1]) // at the same time
	for _, lock := range readers {
		mustUnlock(t, lock)
	}
	writer := mustLock(t, one, key)
	third := guardLater(t, c, writer)
	wantBlocked(t, db, c, a, b)
	commit(t, first, second)
	tx := <-third
	mustUnlock(t, writer)

	reader := mustLock(t, other, key, pglock.Shared())
	fourth := guardLater(t, a, reader)
	wantBlocked(t, db, a, c)
	commit(t, tx)
	commit(t, <-fourth)
	mustUnlock(t, reader)
}

func TestGuardTxRefusesANestedTransaction(t *testing.T) {
	db := testenv.Database(t)
	lock := mustLock(t, openLocker(t, db), pglock.NewKey("k"))
	for name, begin := range map[string]func(context.Context) (pgx.Tx, error){
		"of a connection": db.Connect(t).Begin, "of a pool": db.Pool(t).Begin,
	} {
		tx, err := begin(t.Context())
		must.Succeed(t, err)
		nested, err := tx.Begin(t.Context())
		must.Succeed(t, err)
		if err := lock.GuardTx(t.Context(), nested); err == nil || !strings.Contains(err.Error(), "nested") {
			t.Errorf("%s: %v", name, err)
		}
		if err := lock.GuardTx(t.Context(), tx); err != nil {
			t.Errorf("%s: the outermost transaction after that: %v", name, err)
		}
		commit(t, nested, tx)
	}
	mustUnlock(t, lock)
}

// terminateHolders ends all sessions that hold an advisory lock.
func terminateHolders(t *testing.T, admin *pgx.Conn) {
	t.Helper()
	must.One[int64](t, admin, `select count(pg_terminate_backend(pid)) from (select distinct pid from pg_locks
		where locktype = 'advisory' and granted and pid <> pg_backend_pid()
		and database = (select oid from pg_database where datname = current_database())) as holders`)
}

// Any role may wait for the identity of a session, and gets it when the session ends.
func TestGuardTxIsNotDeceivedByAStrangerInTheIdentitysQueue(t *testing.T) {
	db := testenv.Database(t)
	link, config := newProxy(t, db)
	silent := openShortLeased(t, config)
	admin, zombie, stranger := db.Connect(t), db.Connect(t), db.Connect(t)
	key := pglock.NewKey("k")
	lost := mustLock(t, silent, key)
	commit(t, mustGuard(t, admin, lost))
	class, object := identity(t, admin)
	inherited := make(chan error)
	go func() {
		_, err := stranger.Exec(minuteContext(t), "select pg_advisory_lock($1, $2)", class, object)
		inherited <- err
	}()
	db.WaitForWaiters(t, 1)
	link.Cut(true, true)
	terminateHolders(t, admin)
	must.Succeed(t, <-inherited)
	taken := mustLock(t, openLocker(t, db), key)
	commit(t, mustGuard(t, admin, taken))
	wantAborted(t, zombie, func(tx pgx.Tx) error { return lost.GuardTx(minuteContext(t), tx) }, pglock.ErrLost)
	mustUnlock(t, taken)
	if _, err := stranger.Exec(t.Context(), "select pg_advisory_unlock($1, $2)", class, object); err != nil {
		t.Error(err)
	}
	link.Cut(false, false)
}

// Sessions of two servers can have the same identity: after a failover, those of an old primary that lives on. Two databases
// of one server are the same case.
func TestGuardTxIsNotDeceivedByTheSameIdentityElsewhere(t *testing.T) {
	db, other := testenv.Database(t), testenv.Database(t)
	admin, elsewhere := db.Connect(t), other.Connect(t)
	lock := mustLock(t, openLocker(t, db), pglock.NewKey("k"))
	commit(t, mustGuard(t, admin, lock))
	class, object := identity(t, admin)
	if _, err := other.Connect(t).Exec(t.Context(), "select pg_advisory_lock($1, $2)", class, object); err != nil {
		t.Fatal(err)
	}
	wantAborted(t, elsewhere, func(tx pgx.Tx) error { return lock.GuardTx(minuteContext(t), tx) }, pglock.ErrOtherServer)
	mustUnlock(t, lock)
}

// identity returns the identity of the only session that has one in the database.
func identity(t *testing.T, admin *pgx.Conn) (class, object int32) {
	t.Helper()
	if err := admin.QueryRow(t.Context(), `select classid::int8, objid::int8 from pg_locks
		where locktype = 'advisory' and objsubid = 2 and pid <> pg_backend_pid()
		and database = (select oid from pg_database where datname = current_database())`).Scan(&class, &object); err != nil {
		t.Fatal(err)
	}
	return class, object
}

// A transaction whose guard has failed cannot commit, even if the context of the call had already ended.
func TestGuardTxAbortsTheTransactionThoughItsContextHasEnded(t *testing.T) {
	db := testenv.Database(t)
	l := openLocker(t, db)
	lock, over := mustLock(t, l, pglock.NewKey("k")), mustLock(t, l, pglock.NewKey("over"))
	mustUnlock(t, over)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	wantAborted(t, db.Connect(t), func(tx pgx.Tx) error { return lock.GuardTx(ended, tx) }, context.Canceled)
	wantAborted(t, db.Connect(t), func(tx pgx.Tx) error { return over.GuardTx(ended, tx) }, pglock.ErrUnlocked)
	mustUnlock(t, lock)
}

// Contexts end at every moment of the first GuardTx of a session, in which it takes its identity.
func TestGuardTxLeavesNoIdentityBehind(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	admin := db.Connect(t)
	for i := range 10 {
		l, _ := openFar(t, db)
		lock := mustLock(t, l, pglock.NewKey("k"))
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*400*time.Microsecond)
			tx, err := admin.Begin(t.Context())
			must.Succeed(t, err)
			//pglock:allow most are cancelled
			_ = lock.GuardTx(ctx, tx)
			cancel()
			_ = tx.Rollback(t.Context())
			if admin.IsClosed() {
				admin = db.Connect(t)
			}
		}
		commit(t, mustGuard(t, admin, lock))
		// The server process of the Locker before may not have ended yet.
		identities := must.One[int64](t, admin, `select max(n) from (select count(*) as n from pg_locks where locktype = 'advisory' and objsubid = 2
			and database = (select oid from pg_database where datname = current_database()) group by pid) as of_process`)
		if identities != 1 {
			t.Errorf("a session has %d identities", identities)
		}
		mustUnlock(t, lock)
		closeWithinAMinute(t, l)
	}
}
