package migrations_test

import (
	"context"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/testenv"
)

// lock is a row of pglock.locks.
type lock struct {
	Key             string
	Name            *string
	Space           int16
	Number          int64
	Class, Object   *int32
	Mode            string
	Granted         bool
	PID             *int32 `db:"pid"`
	Prepared        *string
	Usename         *string
	ApplicationName *string
	ClientAddr      *netip.Prefix
	State           *string
	SessionSince    *time.Time
	WaitingSince    *time.Time
}

// wait is a row of pglock.waits.
type wait struct {
	Key                    string
	Name                   *string
	Space                  int16
	Number                 int64
	Class, Object          *int32
	Mode                   string
	WaiterPID              int32 `db:"waiter_pid"`
	WaiterUsename          *string
	WaiterApplicationName  *string
	WaitingSince           *time.Time
	BlockerPID             int32 `db:"blocker_pid"`
	BlockerPrepared        *string
	BlockerUsename         *string
	BlockerApplicationName *string
	BlockerClientAddr      *netip.Prefix
	BlockerState           *string
	Block                  *string
}

func (w wait) edge() string {
	prepared, block := "", "unknown"
	if w.BlockerPrepared != nil {
		prepared = " " + *w.BlockerPrepared
	}
	if w.Block != nil {
		block = *w.Block
	}
	return fmt.Sprintf("%s: %d waits %s for %d%s, %s", w.Key, w.WaiterPID, w.Mode, w.BlockerPID, prepared, block)
}

func locks(t *testing.T, db querier) []lock {
	t.Helper()
	return all[lock](t, db, "SELECT * FROM pglock.locks ORDER BY key, granted DESC, pid")
}

func waits(t *testing.T, db querier) []wait {
	t.Helper()
	return all[wait](t, db, "SELECT * FROM pglock.waits")
}

func pid(conn *pgx.Conn) int32 { return int32(conn.PgConn().PID()) }

func TestLocksShowsEveryKeyAsPeopleWriteIt(t *testing.T) {
	t.Parallel()
	db, pool := installed(t)
	execute(t, pool, "SELECT pglock.register('invoice:42', '@home', '', '@7/8')")
	elsewhere := testenv.Database(t)
	execute(t, elsewhere.Connect(t), "SELECT pg_advisory_lock(1)")

	for _, test := range []struct {
		lock          string // the arguments of the function
		key, name     string
		space         int16
		number        int64
		class, object int32
	}{
		{"pglock.key('invoice:42')", "invoice:42", "invoice:42", 1, number("invoice:42"), 0, 0},
		{"pglock.key('@home')", "@@home", "@home", 1, number("@home"), 0, 0},
		{"pglock.key('@7/8')", "@@7/8", "@7/8", 1, number("@7/8"), 0, 0},
		{"pglock.key('')", "@-2039914840885289964", "", 1, number(""), 0, 0},
		{"pglock.key('a')", "@-3848465438864589366", "none", 1, number("a"), 0, 0},
		{"-1", "@-1", "none", 1, -1, 0, 0},
		{"'-9223372036854775808'", "@-9223372036854775808", "none", 1, math.MinInt64, 0, 0},
		{"7, -42", "@7/-42", "none", 2, 7<<32 | (1<<32 - 42), 7, -42},
		{"-1, -1", "@-1/-1", "none", 2, -1, -1, -1},
		{"'-2147483648', 2147483647", "@-2147483648/2147483647", "none", 2, math.MinInt32<<32 | math.MaxInt32,
			math.MinInt32, math.MaxInt32},
		// A pair whose number is that of a registered name is another lock.
		{"(pglock.key('invoice:42') >> 32)::int, (pglock.key('invoice:42') << 32 >> 32)::int", "@1557282483/991569225",
			"none", 2, number("invoice:42"), 1557282483, 991569225},
	} {
		t.Run(test.lock, func(t *testing.T) {
			conn := db.Connect(t)
			execute(t, conn, "SELECT pg_advisory_lock("+test.lock+")")
			defer execute(t, conn, "SELECT pg_advisory_unlock_all()")
			rows := locks(t, pool)
			if len(rows) != 1 {
				t.Fatalf("%d rows", len(rows))
			}
			row := rows[0]
			if row.Key != test.key || row.Space != test.space || row.Number != test.number {
				t.Errorf("key %s, space %d, number %d", row.Key, row.Space, row.Number)
			}
			if got := valueOr(row.Name, "none"); got != test.name {
				t.Errorf("name %q", got)
			}
			if isPair := row.Class != nil && row.Object != nil; isPair != (test.space == 2) {
				t.Errorf("class %v, object %v", row.Class, row.Object)
			}
			if valueOr(row.Class, 0) != test.class || valueOr(row.Object, 0) != test.object {
				t.Errorf("class %d, object %d", valueOr(row.Class, 0), valueOr(row.Object, 0))
			}
		})
	}
}

func valueOr[T any](value *T, otherwise T) T {
	if value == nil {
		return otherwise
	}
	return *value
}

func TestLocksShowsWhoHoldsAndWhoWaits(t *testing.T) {
	t.Parallel()
	db, pool := installed(t)
	execute(t, pool, "SELECT pglock.register('report')")
	first, second, third := db.Connect(t), db.Connect(t), db.Connect(t)
	execute(t, first, "SET application_name = 'first'; SELECT pg_advisory_lock_shared(pglock.key('report'))")
	execute(t, second, "SET application_name = 'second'; SELECT pg_advisory_lock_shared(pglock.key('report'))")
	waiting := waitFor(t, db, third, "SELECT pg_advisory_lock(pglock.key('report'))")

	overTCP := one[bool](t, pool, "SELECT inet_client_addr() IS NOT NULL")
	rows := locks(t, pool)
	if len(rows) != 3 {
		t.Fatalf("%d rows", len(rows))
	}
	for i, want := range []struct {
		conn    *pgx.Conn
		mode    string
		granted bool
		app     string
		state   string
	}{
		{first, "shared", true, "first", "idle"},
		{second, "shared", true, "second", "idle"},
		{third, "exclusive", false, t.Name(), "active"},
	} {
		row := rows[slices.IndexFunc(rows, func(l lock) bool { return valueOr(l.PID, 0) == pid(want.conn) })]
		if row.Key != "report" || row.Mode != want.mode || row.Granted != want.granted ||
			valueOr(row.ApplicationName, "") != want.app || valueOr(row.State, "") != want.state ||
			valueOr(row.Usename, "") != user(pool) || (row.ClientAddr != nil) != overTCP || row.SessionSince == nil ||
			row.Prepared != nil {
			t.Errorf("session %d: %+v", i, row)
		}
		if row.Granted && row.WaitingSince != nil {
			t.Errorf("a holder waits since %s", row.WaitingSince)
		}
	}
	execute(t, first, "SELECT pg_advisory_unlock_all()")
	execute(t, second, "SELECT pg_advisory_unlock_all()")
	waiting()
	if rows := locks(t, pool); len(rows) != 1 || !rows[0].Granted || rows[0].WaitingSince != nil {
		t.Errorf("after the wait: %+v", rows)
	}
}

// waitFor makes conn run SQL that has to wait for an advisory lock, and returns when it waits. The returned function
// returns when the statement has ended.
func waitFor(t *testing.T, db *testenv.DB, conn *pgx.Conn, sql string) (granted func()) {
	t.Helper()
	waitersBefore := countWaiters(t, db)
	result := make(chan error, 1)
	go func() {
		_, err := conn.Exec(context.Background(), sql)
		result <- err
	}()
	testenv.WaitUntil(t, "another session waits", func() bool { return countWaiters(t, db) == waitersBefore+1 })
	return func() {
		t.Helper()
		if err := <-result; err != nil {
			t.Errorf("%s: %v", sql, err)
		}
	}
}

func countWaiters(t *testing.T, db *testenv.DB) (n int) {
	t.Helper()
	for _, l := range db.AdvisoryLocks(t) {
		if !l.Granted {
			n++
		}
	}
	return n
}

func TestWaitsTellsHoldersFromThoseWhoOnlyStandAhead(t *testing.T) {
	t.Parallel()
	db, pool := installed(t)
	execute(t, pool, "SELECT pglock.register('report')")
	reader, writer, late := db.Connect(t), db.Connect(t), db.Connect(t)
	other, otherLate := db.Connect(t), db.Connect(t)
	execute(t, reader, "SELECT pg_advisory_lock_shared(pglock.key('report'))")
	execute(t, other, "SELECT pg_advisory_lock(7, -42)")
	writing := waitFor(t, db, writer, "SELECT pg_advisory_xact_lock(pglock.key('report'))")
	reading := waitFor(t, db, late, "SELECT pg_advisory_xact_lock_shared(pglock.key('report'))")
	pairing := waitFor(t, db, otherLate, "SELECT pg_advisory_xact_lock_shared(7, -42)")

	// The late reader is compatible with the one that holds the lock: a self-join of pg_locks would not find its blocker.
	wantEdges(t, pool,
		fmt.Sprintf("report: %d waits exclusive for %d, hard", pid(writer), pid(reader)),
		fmt.Sprintf("report: %d waits shared for %d, soft", pid(late), pid(writer)),
		fmt.Sprintf("@7/-42: %d waits shared for %d, hard", pid(otherLate), pid(other)))
	wantSameAsPgBlockingPids(t, pool)
	for _, w := range waits(t, pool) {
		if valueOr(w.BlockerApplicationName, "") != t.Name() || valueOr(w.WaiterApplicationName, "") != t.Name() ||
			valueOr(w.BlockerUsename, "") != user(pool) || valueOr(w.WaiterUsename, "") != user(pool) ||
			w.BlockerState == nil {
			t.Errorf("%+v", w)
		}
	}
	execute(t, reader, "SELECT pg_advisory_unlock_all()")
	execute(t, other, "SELECT pg_advisory_unlock_all()")
	writing()
	reading()
	pairing()
	wantEdges(t, pool)
}

func wantEdges(t *testing.T, db querier, want ...string) {
	t.Helper()
	got := make([]string, 0, len(want))
	for _, w := range waits(t, db) {
		got = append(got, w.edge())
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("pglock.waits has\n%q\nwant\n%q", got, want)
	}
}

func wantSameAsPgBlockingPids(t *testing.T, db querier) {
	t.Helper()
	type edge struct{ Waiter, Blocker int32 }
	ours := all[edge](t, db, "SELECT waiter_pid AS waiter, blocker_pid AS blocker FROM pglock.waits ORDER BY 1, 2")
	theirs := all[edge](t, db, `SELECT DISTINCT pid AS waiter, unnest(pg_blocking_pids(pid)) AS blocker
		FROM pg_locks JOIN pg_database ON pg_database.oid = database
		WHERE locktype = 'advisory' AND NOT granted AND datname = current_database() ORDER BY 1, 2`)
	if len(ours) == 0 || !slices.Equal(ours, theirs) {
		t.Errorf("pglock.waits has %v and pg_blocking_pids %v", ours, theirs)
	}
}

func TestPreparedTransactionsAreNamed(t *testing.T) {
	t.Parallel()
	db, pool := installed(t)
	first, second := db.Name()+" first", db.Name()+" second"
	conn := db.Connect(t)
	for _, gid := range []string{first, second} {
		execute(t, conn, fmt.Sprintf(`BEGIN; SAVEPOINT s; CREATE TABLE public.%q (); RELEASE s;
			SELECT pg_advisory_xact_lock_shared(42); PREPARE TRANSACTION '%[1]s'`, gid))
	}
	waiter := db.Connect(t)
	waiting := waitFor(t, db, waiter, "SELECT pg_advisory_xact_lock(42)")

	var holders []string
	for _, l := range locks(t, pool) {
		if l.Granted {
			holders = append(holders, fmt.Sprintf("%s %s %s %s, pid %d",
				l.Key, l.Mode, valueOr(l.Prepared, "?"), valueOr(l.Usename, "?"), valueOr(l.PID, 0)))
		}
	}
	slices.Sort(holders)
	want := []string{
		fmt.Sprintf("@42 shared %s %s, pid 0", first, user(pool)),
		fmt.Sprintf("@42 shared %s %s, pid 0", second, user(pool)),
	}
	if !slices.Equal(holders, want) {
		t.Errorf("pglock.locks has\n%q\nwant\n%q", holders, want)
	}
	wantEdges(t, pool,
		fmt.Sprintf("@42: %d waits exclusive for 0 %s, hard", pid(waiter), first),
		fmt.Sprintf("@42: %d waits exclusive for 0 %s, hard", pid(waiter), second))

	for _, gid := range []string{first, second} {
		execute(t, conn, "ROLLBACK PREPARED '"+gid+"'")
	}
	waiting()
}

func TestTablesAndViewsHaveAComment(t *testing.T) {
	t.Parallel()
	_, pool := installed(t)
	missing := one[string](t, pool, `SELECT coalesce(string_agg(c.oid::regclass::text, ', '), '') FROM pg_class AS c
		WHERE c.relnamespace = 'pglock'::regnamespace AND c.relkind IN ('r', 'p', 'v') AND NOT c.relispartition
		  AND obj_description(c.oid, 'pg_class') IS NULL`)
	if missing != "" {
		t.Errorf("no comment on %s", missing)
	}
}
