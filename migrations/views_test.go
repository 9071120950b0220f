package migrations_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

func pid(conn *pgx.Conn) int32 { return int32(conn.PgConn().PID()) }

func valueOr[T any](value *T, otherwise T) T {
	if value == nil {
		return otherwise
	}
	return *value
}

// wantLines compares the text that a query makes of each row with what is wanted, in any order.
func wantLines(t *testing.T, db querier, sql string, want ...string) {
	t.Helper()
	got := must.One[[]string](t, db, "SELECT coalesce(array_agg(line), '{}') FROM ("+sql+") AS of (line)")
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s has\n%q\nwant\n%q", sql, got, want)
	}
}

func TestLocksShowsEveryKeyAsPeopleWriteIt(t *testing.T) {
	t.Parallel()
	db, pool := installed(t)
	execute(t, pool, "SELECT pglock.register('invoice:42', '@home', '', '@7/8')")
	elsewhere := testenv.Database(t)
	execute(t, elsewhere.Connect(t), "SELECT pg_advisory_lock(1)")
	conn := db.Connect(t)
	var want []string
	for lock, line := range map[string]string{ // by the arguments of the function
		"pglock.key('invoice:42')":  fmt.Sprintf("invoice:42, name invoice:42, 1 %d none none", number("invoice:42")),
		"pglock.key('@home')":       fmt.Sprintf("@@home, name @home, 1 %d none none", number("@home")),
		"pglock.key('@7/8')":        fmt.Sprintf("@@7/8, name @7/8, 1 %d none none", number("@7/8")),
		"pglock.key('')":            fmt.Sprintf("@-2039914840885289964, name , 1 %d none none", number("")),
		"pglock.key('a')":           "@-3848465438864589366, name none, 1 -3848465438864589366 none none",
		"-1":                        "@-1, name none, 1 -1 none none",
		"'-9223372036854775808'":    "@-9223372036854775808, name none, 1 -9223372036854775808 none none",
		"7, -42":                    "@7/-42, name none, 2 34359738326 7 -42",
		"-1, -1":                    "@-1/-1, name none, 2 -1 -1 -1",
		"'-2147483648', 2147483647": "@-2147483648/2147483647, name none, 2 -9223372034707292161 -2147483648 2147483647",
		// A pair whose number is that of a registered name is another lock.
		"(pglock.key('invoice:42') >> 32)::int, (pglock.key('invoice:42') << 32 >> 32)::int": fmt.Sprintf(
			"@1557282483/991569225, name none, 2 %d 1557282483 991569225", number("invoice:42")),
	} {
		execute(t, conn, "SELECT pg_advisory_lock("+lock+")")
		want = append(want, line)
	}
	wantLines(t, pool, `SELECT concat(key, ', name ', coalesce(name, 'none'), ', ', space, ' ', number, ' ',
		coalesce(class::text, 'none'), ' ', coalesce(object::text, 'none')) FROM pglock.locks`, want...)
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

// edges are the rows of pglock.waits.
const edges = `SELECT concat(key, ': ', waiter_pid, ' waits ', mode, ' for ', blocker_pid, coalesce(' ' || blocker_prepared, ''),
	', ', coalesce(block, 'unknown')) FROM pglock.waits`

// The late reader is compatible with the one that holds the lock: a self-join of pg_locks would not find its blocker.
func TestLocksAndWaitsShowWhoHoldsAndWhoWaitsForWhom(t *testing.T) {
	t.Parallel()
	db, pool := installed(t)
	execute(t, pool, "SELECT pglock.register('report')")
	reader, writer, late := db.Connect(t), db.Connect(t), db.Connect(t)
	other, otherLate := db.Connect(t), db.Connect(t)
	execute(t, reader, "SET application_name = 'reader'; SELECT pg_advisory_lock_shared(pglock.key('report'))")
	execute(t, other, "SELECT pg_advisory_lock(7, -42)")
	writing := waitFor(t, db, writer, "SELECT pg_advisory_xact_lock(pglock.key('report'))")
	reading := waitFor(t, db, late, "SELECT pg_advisory_xact_lock_shared(pglock.key('report'))")
	pairing := waitFor(t, db, otherLate, "SELECT pg_advisory_xact_lock_shared(7, -42)")

	const locks = `SELECT concat_ws(' ', key, mode, granted, pid, application_name, usename, state,
		'since ' || (session_since IS NOT NULL), 'prepared ' || (prepared IS NOT NULL), 'waits ' || (granted AND waiting_since IS NOT NULL),
		'address ' || (client_addr IS NOT DISTINCT FROM inet_client_addr())) FROM pglock.locks`
	line := func(lock, granted string, conn *pgx.Conn, application, state string) string {
		return fmt.Sprintf("%s %s %d %s %s %s since true prepared false waits false address true", lock, granted, pid(conn), application, user(pool), state)
	}
	wantLines(t, pool, locks, line("report shared", "t", reader, "reader", "idle"), line("report exclusive", "f", writer, t.Name(), "active"),
		line("report shared", "f", late, t.Name(), "active"), line("@7/-42 exclusive", "t", other, t.Name(), "idle"),
		line("@7/-42 shared", "f", otherLate, t.Name(), "active"))
	wantLines(t, pool, edges,
		fmt.Sprintf("report: %d waits exclusive for %d, hard", pid(writer), pid(reader)),
		fmt.Sprintf("report: %d waits shared for %d, soft", pid(late), pid(writer)),
		fmt.Sprintf("@7/-42: %d waits shared for %d, hard", pid(otherLate), pid(other)))
	wantLines(t, pool, "SELECT concat_ws(' ', waiter_usename, blocker_usename, blocker_state IS NOT NULL) FROM pglock.waits WHERE block = 'soft'",
		user(pool)+" "+user(pool)+" t")
	execute(t, reader, "SELECT pg_advisory_unlock_all()")
	execute(t, other, "SELECT pg_advisory_unlock_all()")
	writing()
	reading()
	pairing()
	wantLines(t, pool, edges)
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
	wantLines(t, pool, "SELECT concat_ws(' ', key, mode, prepared, usename, coalesce(pid, 0)) FROM pglock.locks WHERE granted",
		fmt.Sprintf("@42 shared %s %s 0", first, user(pool)), fmt.Sprintf("@42 shared %s %s 0", second, user(pool)))
	wantLines(t, pool, edges, fmt.Sprintf("@42: %d waits exclusive for 0 %s, hard", pid(waiter), first),
		fmt.Sprintf("@42: %d waits exclusive for 0 %s, hard", pid(waiter), second))
	for _, gid := range []string{first, second} {
		execute(t, conn, "ROLLBACK PREPARED '"+gid+"'")
	}
	waiting()
}
func TestTablesAndViewsHaveAComment(t *testing.T) {
	t.Parallel()
	_, pool := installed(t)
	missing := must.One[string](t, pool, `SELECT coalesce(string_agg(c.oid::regclass::text, ', '), '') FROM pg_class AS c
		WHERE c.relnamespace = 'pglock'::regnamespace AND c.relkind IN ('r', 'p', 'v') AND NOT c.relispartition
		  AND obj_description(c.oid, 'pg_class') IS NULL`)
	if missing != "" {
		t.Errorf("no comment on %s", missing)
	}
}
