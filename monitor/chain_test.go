package monitor_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/monitor"
)

// startBlocked makes conn wait for the lock that a statement needs, until the test ends. It ignores errors, since the
// wait can end with a deadlock.
func startBlocked(t testing.TB, db *testenv.DB, conn *pgx.Conn, statement string) int32 {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = conn.Exec(ctx, statement)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	pid, admin := pidOf(conn), db.Pool(t)
	testenv.WaitUntil(t, statement+" waits", func() bool {
		var waits bool
		must.Succeed(t, admin.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_locks l LEFT JOIN pg_stat_activity a USING (pid) "+
			"WHERE NOT l.granted AND $1 IN (l.pid, a.leader_pid))", pid).Scan(&waits))
		return waits
	})
	return pid
}

// idleSessions has sessions that do nothing until the test ends.
type idleSessions struct {
	*testing.T
	db *testenv.DB
}

func (s idleSessions) session(statements ...string) *pgx.Conn {
	return session(s.T, s.db, statements...)
}

func (s idleSessions) waits(statement string, before ...string) int32 {
	return startBlocked(s.T, s.db, s.session(before...), statement)
}

const patience = "SET deadlock_timeout = '1h'"

var chainScenes = map[string]func(idleSessions){
	"advisory locks alone": func(s idleSessions) {
		s.session("SELECT pg_advisory_lock(1)")
		s.waits("SELECT pg_advisory_lock_shared(1)")
		s.waits("SELECT pg_advisory_lock_shared(1)")
		s.waits("SELECT pg_advisory_lock(1)")
	},
	"a holder behind a table lock": func(s idleSessions) {
		s.session("BEGIN", "LOCK TABLE t")
		s.waits("SELECT * FROM t", "SELECT pg_advisory_lock(3333)")
		s.waits("SELECT pg_advisory_lock(3333)")
	},
	"waiters for a row and for a lock": func(s idleSessions) {
		s.session("SELECT pg_advisory_lock(5555)", "BEGIN", "UPDATE t SET v = 1 WHERE id = 1")
		for range 3 {
			s.waits("UPDATE t SET v = 2 WHERE id = 1")
		}
		s.waits("SELECT pg_advisory_lock(5555)")
	},
	"a chain of FOR UPDATE": func(s idleSessions) {
		s.session("BEGIN", "SELECT * FROM t WHERE id = 1 FOR UPDATE")
		s.waits("SELECT * FROM t WHERE id = 1 FOR UPDATE", "BEGIN", "SELECT * FROM t WHERE id = 2 FOR UPDATE")
		s.waits("SELECT * FROM t WHERE id = 2 FOR UPDATE", "BEGIN", "SELECT pg_advisory_xact_lock(7, -42)")
		s.waits("SELECT pg_advisory_lock_shared(7, -42)")
	},
	"shared rows": func(s idleSessions) {
		s.session("BEGIN", "SELECT * FROM t WHERE id = 1 FOR SHARE", "SELECT pg_advisory_lock(1)")
		s.session("BEGIN", "SELECT * FROM t WHERE id = 1 FOR KEY SHARE")
		s.waits("DELETE FROM t WHERE id = 1")
		s.waits("SELECT * FROM t WHERE id = 1 FOR UPDATE")
		s.waits("SELECT * FROM t WHERE id = 1 FOR NO KEY UPDATE", "SELECT pg_advisory_lock(2)")
	},
	"DDL behind idle in transaction, and readers behind the DDL": func(s idleSessions) {
		s.session("SELECT pg_advisory_lock(1)", "BEGIN", "SELECT * FROM t")
		s.waits("ALTER TABLE t ADD w int")
		s.waits("SELECT * FROM t")
		s.waits("INSERT INTO t VALUES (9)", "SELECT pg_advisory_lock(2)")
		s.waits("SELECT pg_advisory_lock(2)")
	},
	"table locks in every mode": func(s idleSessions) {
		s.session("SELECT pg_advisory_lock(1)", "BEGIN", "LOCK TABLE t IN ROW EXCLUSIVE MODE")
		s.session("BEGIN", "LOCK TABLE t IN ROW SHARE MODE")
		for _, mode := range []string{"SHARE", "SHARE ROW EXCLUSIVE", "EXCLUSIVE", "ACCESS EXCLUSIVE", "ACCESS SHARE",
			"ROW SHARE", "ROW EXCLUSIVE", "SHARE UPDATE EXCLUSIVE"} {
			conn := s.session("BEGIN")
			if mode == "ROW SHARE" || mode == "ACCESS SHARE" || mode == "ROW EXCLUSIVE" {
				execute(s.T, conn, "SELECT pg_advisory_lock(2), 1")
				execute(s.T, conn, "SELECT pg_advisory_unlock(2)")
			}
			startBlocked(s.T, s.db, conn, "LOCK TABLE t IN "+mode+" MODE")
		}
	},
	"a prepared transaction with a table": func(s idleSessions) {
		gid := s.db.Name()
		s.session("BEGIN", "LOCK TABLE t", "PREPARE TRANSACTION '"+gid+"'")
		s.Cleanup(func() { execute(s.T, s.db.Connect(s.T), "ROLLBACK PREPARED '"+gid+"'") })
		s.waits("SELECT * FROM t", "SELECT pg_advisory_lock(1)")
		s.waits("SELECT pg_advisory_lock(1)")
	},
	"two prepared transactions": func(s idleSessions) {
		for i, statement := range []string{"LOCK TABLE t IN SHARE MODE", "LOCK TABLE t IN ROW SHARE MODE"} {
			gid := fmt.Sprint(s.db.Name(), i)
			s.session("BEGIN", statement, "SELECT pg_advisory_xact_lock_shared(1)", "PREPARE TRANSACTION '"+gid+"'")
			s.Cleanup(func() { execute(s.T, s.db.Connect(s.T), "ROLLBACK PREPARED '"+gid+"'") })
		}
		s.waits("LOCK TABLE t", "SELECT pg_advisory_lock(2)", "BEGIN")
		s.waits("SELECT pg_advisory_lock(1)")
	},
	"a unique key": func(s idleSessions) {
		s.session("BEGIN", "INSERT INTO t VALUES (100)")
		s.waits("INSERT INTO t VALUES (100)", "SELECT pg_advisory_lock(1)")
		s.waits("SELECT pg_advisory_lock(1)")
	},
	"an index that is built concurrently": func(s idleSessions) {
		s.session("SELECT pg_advisory_lock(1)", "BEGIN", "INSERT INTO t VALUES (100)")
		s.waits("CREATE INDEX CONCURRENTLY ON t (v)")
		s.waits("LOCK TABLE t", "BEGIN")
	},
	"an index that waits for an old snapshot": func(s idleSessions) {
		s.session("SELECT pg_advisory_lock(1)", "BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT * FROM other")
		s.waits("CREATE INDEX CONCURRENTLY ON t (v)")
	},
	"an object": func(s idleSessions) {
		s.session("SELECT pg_advisory_lock(1)", "BEGIN", "CREATE TABLE app.t ()")
		s.waits("DROP SCHEMA app")
	},
	"a shared object": func(s idleSessions) {
		s.session("SELECT pg_advisory_lock(1)", "BEGIN", "COMMENT ON DATABASE "+quoted(s.db.Name())+" IS 'x'")
		s.waits("COMMENT ON DATABASE "+quoted(s.db.Name())+" IS 'y'", "SELECT pg_advisory_lock(2)")
	},
	"parallel workers that wait": func(s idleSessions) {
		s.session("BEGIN", "LOCK TABLE other")
		s.waits("SELECT count(wait_for_other(id)) FROM t", "SELECT pg_advisory_lock(1)", "SET parallel_setup_cost = 0",
			"SET parallel_tuple_cost = 0", "SET min_parallel_table_scan_size = 0", "SET parallel_leader_participation = off",
			"SET max_parallel_workers_per_gather = 2")
		s.waits("SELECT pg_advisory_lock(1)")
	},
	"a page, of an index whose operator class waits": func(s idleSessions) {
		execute(s.T, s.db.Pool(s.T), "CREATE FUNCTION compare(a int, b int) RETURNS int LANGUAGE plpgsql AS 'BEGIN "+
			"PERFORM pg_advisory_lock_shared(1), pg_advisory_unlock_shared(1); RETURN btint4cmp(a, b); END'",
			"CREATE OPERATOR CLASS waiting FOR TYPE int[] USING gin AS OPERATOR 1 && (anyarray, anyarray), FUNCTION 1 compare(int, int), "+
				"FUNCTION 2 ginarrayextract(anyarray, internal, internal), FUNCTION 3 ginqueryarrayextract(anyarray, internal, int2, "+
				"internal, internal, internal, internal), FUNCTION 4 ginarrayconsistent(internal, int2, anyarray, int4, internal, "+
				"internal, internal, internal), STORAGE int",
			"CREATE TABLE arrays (a int[]) WITH (autovacuum_enabled = off)", "CREATE INDEX arrays_a ON arrays USING gin (a waiting)",
			"INSERT INTO arrays VALUES ('{1,2}'), ('{3,4}')")
		first := s.session("SELECT pg_advisory_lock(1)")
		s.waits("SELECT gin_clean_pending_list('arrays_a')")
		s.waits("SELECT gin_clean_pending_list('arrays_a')", "SELECT pg_advisory_lock(2)") // for the page, which the session before has locked
		s.waits("SELECT pg_advisory_lock(2)")
		s.Cleanup(func() { execute(s.T, first, "SELECT pg_advisory_unlock(1)") }) // a wait of an operator class cannot be cancelled
	},
	"a deadlock of a table and an advisory lock": func(s idleSessions) {
		first := s.session(patience, "SELECT pg_advisory_lock(1)", "BEGIN")
		second := s.session(patience, "BEGIN", "LOCK TABLE t")
		startBlocked(s.T, s.db, first, "LOCK TABLE t")
		startBlocked(s.T, s.db, second, "SELECT pg_advisory_lock(1)")
	},
}

func newIdleSessions(t *testing.T) idleSessions {
	db := testenv.Database(t)
	execute(t, db.Pool(t), "CREATE TABLE t (id int PRIMARY KEY, v int)", "INSERT INTO t SELECT n FROM generate_series(1, 50) n",
		"CREATE TABLE other ()", "CREATE SCHEMA app", "CREATE FUNCTION wait_for_other(int) RETURNS int LANGUAGE plpgsql "+
			"PARALLEL SAFE AS 'BEGIN PERFORM FROM other; RETURN 1; END'")
	return idleSessions{t, db}
}

func TestLongChainEqualsPgBlockingPidsOnScenesAtRest(t *testing.T) {
	for name, setUp := range chainScenes {
		t.Run(name, func(t *testing.T) {
			s := newIdleSessions(t)
			setUp(s)
			pool := s.db.Pool(t)
			taken := take(t, pool)
			requireGraph(t, s.db, taken)
			for _, n := range taken.Tree().All() {
				if want := behindOf(taken, n.ID()); n.Behind != want {
					t.Errorf("%d sessions are behind %v, want %d", n.Behind, n.ID(), want)
				}
			}
			checkTree(t, taken)
		})
	}
}

// A worker waits for its leader.
const selectGraph = `
SELECT DISTINCT coalesce(a.leader_pid, a.pid), b.pid
FROM pg_stat_activity a, LATERAL unnest(pg_blocking_pids(a.pid)) AS b (pid)
WHERE a.datname = $1`

// requireGraph compares the waits with the sessions that the server names. Those ahead of a wait for a holder are only counted.
func requireGraph(t testing.TB, db *testenv.DB, s *monitor.Snapshot) {
	t.Helper()
	rows, err := db.Pool(t).Query(t.Context(), selectGraph, db.Name())
	must.Succeed(t, err)
	edges, err := pgx.CollectRows(rows, pgx.RowToStructByPos[struct{ Waiter, Blocker int32 }])
	must.Succeed(t, err)
	want, found := map[int32][]int32{}, map[int32]int{}
	for _, e := range edges {
		want[e.Waiter] = append(want[e.Waiter], e.Blocker)
	}
	for wait := range s.Waits() {
		if wait.Database != db.Name() {
			continue
		}
		for _, b := range wait.BlockedBy {
			found[wait.PID]++
			if !slices.Contains(want[wait.PID], b.PID) {
				t.Errorf("%d waits for %d, which the server does not name", wait.PID, b.PID)
			}
		}
		if len(wait.BlockedBy) > 0 && wait.BlockedBy[0].Kind == "hard" {
			found[wait.PID] += wait.Ahead
		}
	}
	for pid, blockers := range want {
		if found[pid] < len(blockers) { // a PID of 0 can mean several prepared transactions
			t.Errorf("%d waits for %d, and for %v according to the server", pid, found[pid], blockers)
		}
	}
	if len(want) == 0 {
		t.Error("nothing waits")
	}
}

// behindOf counts by following the edges one by one.
func behindOf(s *monitor.Snapshot, of monitor.SessionID) int {
	behind := map[monitor.SessionID]bool{of: true}
	for grown := true; grown; {
		grown = false
		for wait := range s.Waits() {
			for _, blocker := range wait.BlockedBy {
				if behind[blocker.ID()] && !behind[wait.ID()] {
					behind[wait.ID()], grown = true, true
				}
			}
		}
	}
	return len(behind) - 1
}

// Without any advisory lock, sessions that wait are shown, and on request only counted.
func TestChainWithoutAdvisoryLocks(t *testing.T) {
	s := newIdleSessions(t)
	pool := s.db.Pool(t)
	owner := s.session("BEGIN", "LOCK TABLE t")
	waiting := []int32{s.waits("SELECT * FROM t"), s.waits("INSERT INTO t VALUES (9)")}
	slices.Sort(waiting)
	taken, err := monitor.Take(t.Context(), pool, monitor.WithAdvisory())
	must.Succeed(t, err)
	if len(taken.OtherWaits) > 0 || taken.WaitsElsewhere < 2 {
		t.Errorf("shown are %+v, and %d wait elsewhere", taken.OtherWaits, taken.WaitsElsewhere)
	}
	taken = take(t, pool)
	var shown []int32
	for _, wait := range taken.OtherWaits {
		if wait.Database == s.db.Name() && wait.Lock.String() == "relation t" {
			shown = append(shown, wait.PID)
		}
	}
	if !slices.Equal(shown, waiting) || taken.WaitsElsewhere != 0 {
		t.Errorf("%v wait, want %v; %d wait elsewhere", shown, waiting, taken.WaitsElsewhere)
	}
	root := taken.Tree().Node(monitor.SessionID{PID: pidOf(owner)})
	if root == nil || root.Behind != 2 || root.Parent() != nil {
		t.Errorf("the root is %+v", root)
	}
	checkTree(t, taken)
}

// The root of the chain is the session that holds the table. It can be terminated.
func TestChainLeadsToTheRoot(t *testing.T) {
	s := newIdleSessions(t)
	owner := s.session("SET application_name = 'ddl-owner'", "BEGIN", "LOCK TABLE t")
	job := s.waits("SELECT * FROM t", "SELECT pg_advisory_lock(3333)")
	s.waits("SELECT pg_advisory_lock(3333)")
	pool := s.db.Pool(t)
	taken := take(t, pool)
	c := inspect(t, pool, pidOf(owner))
	if c.Application != "ddl-owner" || c.Effect("terminate") != (monitor.Effect{Frees: 1, Then: 1, AtMost: 2}) || len(c.Holds) != 0 || len(c.OtherWaiters) != 1 ||
		c.OtherWaiters[0].PID != job || c.OtherWaiters[0].Label() != "relation t" {
		t.Fatalf("the root is %+v", c)
	}
	if behind := taken.Tree().Node(monitor.SessionID{PID: job}).Behind; behind != 1 {
		t.Errorf("%d sessions are behind the job, want 1", behind)
	}
	o, err := monitor.Terminate(t.Context(), pool, c)
	must.Succeed(t, err)
	if !o.Effective() || !strings.Contains(o.String(), "of 1 session that waited behind it 1 can go on") {
		t.Errorf("the outcome is %+v", o)
	}
}

// A row that several transactions have locked has one of them after the other in the way: the outcome says who is next.
func TestChainTheOutcomeSaysWhoIsNextInTheWay(t *testing.T) {
	s := newIdleSessions(t)
	for range 2 {
		s.session(appName("reader"), "BEGIN", "SELECT * FROM t WHERE id = 1 FOR SHARE")
	}
	waiter := s.waits("UPDATE t SET v = 2 WHERE id = 1")
	pool := s.db.Pool(t)
	first := take(t, pool).Tree().Node(monitor.SessionID{PID: waiter}).Blocker
	o, err := monitor.Terminate(t.Context(), pool, inspect(t, pool, first.PID))
	must.Succeed(t, err)
	next := take(t, pool).Tree().Node(monitor.SessionID{PID: waiter}).Blocker
	if want := "of 1 session that waited behind it 0 can go on, next in the way is " + next.Who(); next.PID == first.PID || !strings.HasSuffix(o.String(), want) {
		t.Errorf("%s; want %s", o, want)
	}
}

// One session waits for the advisory lock, and three for the row.
func TestChainCountsWaitersForOtherLocks(t *testing.T) {
	s := newIdleSessions(t)
	holder := s.session("SELECT pg_advisory_lock(5555)", "BEGIN", "UPDATE t SET v = 1 WHERE id = 1")
	first := s.waits("UPDATE t SET v = 2 WHERE id = 1")
	s.waits("UPDATE t SET v = 2 WHERE id = 1")
	s.waits("UPDATE t SET v = 2 WHERE id = 1")
	s.waits("SELECT pg_advisory_lock(5555)")
	pool := s.db.Pool(t)
	c := inspect(t, pool, pidOf(holder))
	if e := c.Effect("terminate"); e != (monitor.Effect{Frees: 1, AtMost: 4}) || len(c.Holds[0].Waiters) != 1 {
		t.Errorf("to terminate it %v: %+v", e, c)
	}
	w := inspect(t, pool, first)
	if len(w.Waits) != 1 || w.Waits[0].Other.Type != "transactionid" || len(w.OtherWaiters) == 0 {
		t.Errorf("the first waiter is %+v", w)
	}
	o, err := monitor.Cancel(t.Context(), pool, w)
	must.Succeed(t, err)
	if !o.Effective() || !strings.Contains(o.String(), "does not wait any more") {
		t.Errorf("the outcome of cancelling the first waiter is %+v", o)
	}
}

// PostgreSQL has the waiters for rows wait for a transaction. The wait names the table all the same. Where no row is waited for, none is named.
// In another database catalogs have names, and other tables numbers.
func TestChainNamesTheTableOfARowThatIsWaitedFor(t *testing.T) {
	s := newIdleSessions(t)
	holder := s.session("BEGIN", "UPDATE t SET v = 1", "INSERT INTO t VALUES (100)")
	elsewhere := testenv.Database(t)
	transaction := must.One[string](t, holder, "SELECT txid_current()::text")
	for id := range 7 {
		s.waits(fmt.Sprintf("SELECT * FROM t WHERE id = %d FOR UPDATE", id+1))
	}
	second := s.waits("DELETE FROM t WHERE id = 1")
	unique := s.waits("INSERT INTO t VALUES (100)")
	s.session("BEGIN", "LOCK TABLE pg_description")
	catalog := s.waits("SELECT FROM pg_description")
	ours := func(w *monitor.OtherWait) bool { return w.Database == s.db.Name() }
	taken, err := monitor.Take(t.Context(), s.db.Pool(t))
	must.Succeed(t, err)
	for _, wait := range taken.OtherWaits {
		want := "row of t in transaction " + transaction
		switch wait.PID {
		case second:
			want = "row (0,1) of t"
		case unique:
			want = "transaction " + transaction
		case catalog:
			want = "relation pg_catalog.pg_description"
		}
		if ours(&wait) && (wait.Lock.String() != want || (wait.Lock.Relation == 0) != (wait.PID == unique)) {
			t.Errorf("%d waits for %s, want %s: %+v", wait.PID, wait.Lock, want, wait.Lock)
		}
	}
	root := taken.Tree().Node(monitor.SessionID{PID: pidOf(holder)})
	if label, mode, _ := root.Held(); label != "row of t in transaction "+transaction || mode != "" {
		t.Errorf("the root holds %s in mode %s", label, mode)
	}
	taken, err = monitor.Take(t.Context(), elsewhere.Pool(t))
	must.Succeed(t, err)
	n := taken.Tree().Node(monitor.SessionID{PID: catalog})
	if label := n.Wait.Label(); label != "relation pg_catalog.pg_description in database "+s.db.Name() {
		t.Errorf("in another database a catalog is %s", label)
	}
	headline := taken.ActionOf(func(*monitor.Lock) bool { return false }, ours).String()
	where := fmt.Sprintf(" in transaction %s in database %s:", transaction, s.db.Name())
	if !strings.Contains(headline, " holds row of ") || strings.Count(headline, s.db.Name()) != 1 || !strings.Contains(headline, where) {
		t.Errorf("in another database the headline is %s", headline)
	}
}

func TestChainSeesADeadlockThroughATable(t *testing.T) {
	s := newIdleSessions(t)
	chainScenes["a deadlock of a table and an advisory lock"](s)
	taken := take(t, s.db.Pool(t))
	cycle := requireOneCycle(t, taken)
	var keys []string
	for _, step := range cycle.Steps {
		keys = append(keys, step.Key)
	}
	if slices.Sort(keys); !cycle.Certain || !slices.Equal(keys, []string{"@1", "relation t"}) {
		t.Errorf("the deadlock is %+v", cycle)
	}
}

// Parallel workers count as their leader, and an auxiliary process must not be ended.
func TestChainTargets(t *testing.T) {
	s := newIdleSessions(t)
	chainScenes["parallel workers that wait"](s)
	pool := s.db.Pool(t)
	var worker, leader int32
	must.Succeed(t, pool.QueryRow(t.Context(), "SELECT pid, leader_pid FROM pg_stat_activity WHERE leader_pid IS NOT NULL "+
		"AND datname = current_database() LIMIT 1").Scan(&worker, &leader))
	taken, err := monitor.Take(t.Context(), pool, monitor.WithSession(monitor.SessionID{PID: worker}))
	must.Succeed(t, err)
	c, err := taken.Target(monitor.SessionID{PID: worker})
	must.Succeed(t, err)
	if c.PID != leader || len(c.Holds) != 1 || len(c.Waits) != 1 {
		t.Errorf("a worker of %d is resolved to %+v", leader, c)
	}
	idle := s.session()
	must.Succeed(t, pool.QueryRow(t.Context(), "SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'").Scan(&worker))
	taken, err = monitor.Take(t.Context(), pool, monitor.WithSession(monitor.SessionID{PID: worker}), monitor.WithSession(monitor.SessionID{PID: pidOf(idle)}))
	must.Succeed(t, err)
	wantError(t, taken, worker, monitor.ErrNotPermitted)
	wantError(t, taken, 1<<30, monitor.ErrNoSession)
	c, err = taken.Target(monitor.SessionID{PID: pidOf(idle)})
	must.Succeed(t, err)
	o, err := monitor.Terminate(t.Context(), pool, c)
	must.Succeed(t, err)
	if !o.Ended {
		t.Errorf("an idle session without locks: %+v", o)
	}
}

// However the server changes, every edge leads to a session of the snapshot.
func TestChainOnAMovingServer(t *testing.T) {
	s := newIdleSessions(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	for i := range 4 {
		conn := s.session("SET lock_timeout = '50ms'")
		go func() {
			defer func() { done <- struct{}{} }()
			for ctx.Err() == nil {
				_, _ = conn.Exec(context.Background(), fmt.Sprintf("SELECT pg_advisory_lock(%d)", i%2))
				_, _ = conn.Exec(context.Background(), "BEGIN; UPDATE t SET v = 1 WHERE id = 1; SELECT pg_sleep(0.001); COMMIT")
				_, _ = conn.Exec(context.Background(), "ROLLBACK; SELECT pg_advisory_unlock_all()")
			}
		}()
	}
	pool := s.db.Pool(t)
	for range 50 {
		taken := take(t, pool)
		known := map[monitor.SessionID]bool{}
		for session := range taken.Sessions() {
			known[session.ID()] = true
		}
		for wait := range taken.Waits() {
			for _, blocker := range wait.BlockedBy {
				if !known[blocker.ID()] || !known[wait.ID()] || blocker.ID() == wait.ID() {
					t.Errorf("the edge from %v to %v leads to no session of the snapshot", wait.ID(), blocker.ID())
				}
			}
		}
	}
	cancel()
	for range 4 {
		<-done
	}
}

func wantError(t testing.TB, s *monitor.Snapshot, pid int32, want error) {
	t.Helper()
	if _, err := s.Target(monitor.SessionID{PID: pid}); !errors.Is(err, want) {
		t.Errorf("process %d: %v, want %v", pid, err, want)
	}
}
