package migrations_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/lockkeys"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
)

// root is the part of a row of pglock.blockers that a test can know beforehand.
type root struct {
	PID      *int32 `db:"pid"`
	Prepared *string
	LockType string
	Lock     string
	Mode     string
	Behind   int64
}

func (r root) String() string {
	return fmt.Sprintf("%d%s %s %s %s: %d", valueOr(r.PID, 0), valueOr(r.Prepared, ""), r.LockType, r.Lock, r.Mode, r.Behind)
}

// wantRoots compares the roots of one database's waits: a test may share its server, and roots are of a server.
func wantRoots(t *testing.T, db querier, mine []*pgx.Conn, want ...string) {
	t.Helper()
	pids := make([]int32, 0, len(mine))
	for _, conn := range mine {
		pids = append(pids, pid(conn))
	}
	slices.Sort(want)
	var got []string
	testenv.WaitUntil(t, "the roots are seen", func() bool {
		got = nil
		for _, r := range all[root](t, db, `SELECT pid, prepared, coalesce(lock_type, '') AS lock_type,
			coalesce(lock, '') AS lock, coalesce(mode, '') AS mode, behind FROM pglock.blockers`) {
			if r.PID == nil || slices.Contains(pids, *r.PID) {
				got = append(got, r.String())
			}
		}
		slices.Sort(got)
		return slices.Equal(got, want)
	})
}

// A holder of a table lock blocks a session that holds an advisory lock, for which others wait in different modes; a
// prepared transaction blocks another. Only the first and the prepared transaction are roots.
func TestBlockersNamesTheRootsOfAllWaits(t *testing.T) {
	t.Parallel()
	db, pool := installed(t)
	execute(t, pool, "CREATE TABLE public.orders (); SELECT pglock.register('report')")
	ddl, holder := db.Connect(t), db.Connect(t)
	execute(t, holder, "SELECT pg_advisory_lock(pglock.key('report'))")
	execute(t, ddl, "BEGIN; LOCK TABLE public.orders")
	report := "pg_advisory_xact_lock"
	writer, reader, late := db.Connect(t), db.Connect(t), db.Connect(t)
	writing := waitFor(t, db, writer, "SELECT "+report+"(pglock.key('report'))")
	reading := waitFor(t, db, reader, "SELECT "+report+"_shared(pglock.key('report'))")
	lasting := waitFor(t, db, late, "SELECT "+report+"(pglock.key('report'))")
	mine := []*pgx.Conn{ddl, holder, writer, reader, late}
	wantRoots(t, pool, mine, fmt.Sprintf("%d advisory report ExclusiveLock: 3", pid(holder)))

	selecting := make(chan error, 1)
	go func() {
		_, err := holder.Exec(t.Context(), "SELECT FROM public.orders")
		selecting <- err
	}()
	wantRoots(t, pool, mine, fmt.Sprintf("%d relation public.orders AccessExclusiveLock: 4", pid(ddl)))
	if state := must.One[string](t, pool, fmt.Sprintf("SELECT state FROM pglock.blockers WHERE pid = %d", pid(ddl))); state != "idle in transaction" {
		t.Errorf("the root is %s", state)
	}

	execute(t, ddl, "COMMIT")
	if err := <-selecting; err != nil {
		t.Error(err)
	}
	execute(t, holder, "SELECT pg_advisory_unlock_all()")
	writing()
	reading()
	lasting()
	wantRoots(t, pool, mine)
}

func TestBlockersNamesPreparedTransactions(t *testing.T) {
	t.Parallel()
	db, pool := installed(t)
	gid := db.Name() + " prepared"
	conn := db.Connect(t)
	execute(t, conn, "BEGIN; SELECT pg_advisory_xact_lock(7, -42); PREPARE TRANSACTION '"+gid+"'")
	waiter := db.Connect(t)
	waiting := waitFor(t, db, waiter, "SELECT pg_advisory_xact_lock(7, -42)")
	behind := must.One[int64](t, pool, "SELECT behind FROM pglock.blockers WHERE prepared = '"+gid+"' AND lock = '@7/-42'")
	if behind != 1 {
		t.Errorf("%d behind", behind)
	}
	if since := must.One[time.Time](t, pool, "SELECT state_since FROM pglock.blockers WHERE prepared = '"+gid+"'"); since.IsZero() {
		t.Error("it is not said since when it is prepared")
	}
	execute(t, conn, "ROLLBACK PREPARED '"+gid+"'")
	waiting()
}

// A deadlock has no root, but members; who stands for an election is expected to wait, as its own process says; who waits for
// a permit blocks no one.
func TestBlockersSayTheirKinds(t *testing.T) {
	db, pool := installed(t)
	kinds := func() []string {
		return must.One[[]string](t, pool, "SELECT array_agg(concat_ws(' ', kind, application_name, behind) ORDER BY kind, application_name) FROM pglock.blockers "+
			"WHERE pid IN (SELECT pid FROM pg_stat_activity WHERE datname = current_database())") // other tests have roots, too
	}
	open := func(statements string) *pgx.Conn {
		conn := db.Connect(t)
		execute(t, conn, statements)
		return conn
	}
	open("SET application_name = 'gate'; SELECT pg_advisory_lock(x'70730000'::int, x'1000'::int)")
	db.Queue(t, db.Connect(t), "SELECT pg_advisory_lock(x'70730000'::int, x'1000'::int)")
	left := open("SET application_name = 'left'; SET deadlock_timeout = '1h'; SELECT pg_advisory_lock(1)")
	right := open("SET application_name = 'right'; SET deadlock_timeout = '1h'; SELECT pg_advisory_lock(2)")
	db.Queue(t, left, "SELECT pg_advisory_lock(2)")
	db.Queue(t, right, "SELECT pg_advisory_lock(1)")
	class, object, _ := lockkeys.LeaderMark.Of(pglock.NewKey("job").ID()).Pair()
	open("SET application_name = 'leader'; SELECT pg_advisory_lock(pglock.key('job'))")
	open(fmt.Sprintf("SET application_name = 'app (pglock 00000001)'; SELECT pg_advisory_lock_shared(%d, %d)", class, object))
	candidate := open("SET application_name = 'app (pglock 00000001)'")
	db.Queue(t, candidate, "SELECT pg_advisory_lock(pglock.key('job'))")
	if got, want := kinds(), []string{"cycle left 1", "cycle right 1", "expected leader 1"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	stranger := open("SET application_name = 'app (pglock 00000002)'")
	db.Queue(t, stranger, "SELECT pg_advisory_lock(pglock.key('job'))")
	if got, want := kinds(), []string{"cycle left 1", "cycle right 1", "root leader 2"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
