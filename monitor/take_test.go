package monitor_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/monitordb"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
)

func TestSnapshotAServerWithoutLocksHasAnEmptySnapshot(t *testing.T) {
	db := testenv.Database(t)
	s := take(t, db.Pool(t))
	requireServerState(t, db, s)
	if s.Database != db.Name() || s.TakenAt.IsZero() || s.ServerVersion == "" || s.Role == "" || s.Locks == nil {
		t.Errorf("the snapshot does not say where it comes from: %+v", s)
	}
}

func TestSnapshotKeysAreDecodedInBothSpaces(t *testing.T) {
	db := testenv.Database(t)
	keys := map[string]pglock.Key{
		"@0":                    pglock.Int64Key(0),
		"@-1":                   pglock.Int64Key(-1),
		"@-9223372036854775808": pglock.Int64Key(math.MinInt64),
		"@9223372036854775807":  pglock.Int64Key(math.MaxInt64),
		"@6688477336110245193":  pglock.NewKey("invoice:42"),
		"@30064771030":          pglock.Int64Key(7<<32 - 42),
		"@7/-42":                pglock.PairKey(7, -42),
		"@-7/42":                pglock.PairKey(-7, 42),
		"@-1/-1":                pglock.PairKey(-1, -1),
		"@0/0":                  pglock.PairKey(0, 0),
	}
	holder := db.Connect(t)
	for _, key := range keys {
		if class, object, pair := key.Pair(); pair {
			execute(t, holder, fmt.Sprintf("SELECT pg_advisory_lock(%d, %d)", class, object))
		} else {
			execute(t, holder, fmt.Sprintf("SELECT pg_advisory_lock(%d)", key.Int64()))
		}
	}

	s := take(t, db.Pool(t))
	requireServerState(t, db, s)
	if len(heldBy(s, pidOf(holder))) != len(keys) {
		t.Errorf("the session holds %d locks, want %d", len(heldBy(s, pidOf(holder))), len(keys))
	}
	for text, key := range keys {
		lock := find(t, s, key)
		class, object, pair := key.Pair()
		if lock.Key != text || lock.ID() != key.ID() || lock.Number != key.Int64() ||
			(lock.Space == "pair") != pair || (pair && (lock.Class != class || lock.Object != object)) {
			t.Errorf("%s was decoded to %+v", text, lock)
		}
	}
	if _, ok := s.Find(pglock.Int64Key(42)); ok {
		t.Error("found a lock that is not held")
	}
}

func TestSnapshotAQueueOfTenWaiters(t *testing.T) {
	db := testenv.Database(t)
	holder := session(t, db, "SELECT pg_advisory_lock(-5)")
	var pids []int32
	for range 10 {
		pids = append(pids, startWaiter(t, db, "SELECT pg_advisory_lock(-5)"))
	}

	s := take(t, db.Pool(t))
	requireServerState(t, db, s)
	lock := find(t, s, pglock.Int64Key(-5))
	if len(lock.Holders) != 1 || lock.Holders[0].PID != pidOf(holder) || lock.Holders[0].Mode != "exclusive" {
		t.Errorf("holders: %+v", lock.Holders)
	}
	for i, waiter := range lock.Waiters {
		if waiter.PID != pids[i] || len(waiter.BlockedBy) != 1 || waiter.Ahead != i {
			t.Errorf("waiter %d is %d, blocked by %v, behind %d; want %d", i, waiter.PID, waiter.BlockedBy, waiter.Ahead, pids[i])
		}
		if waiter.WaitingSince == nil || waiter.WaitingSince.After(s.TakenAt) {
			t.Errorf("waiter %d has been waiting since %v, seen at %v",
				i, waiter.WaitingSince, s.TakenAt)
		}
	}
}

func TestSnapshotAHolderThatWaitsForAStrongerMode(t *testing.T) {
	db := testenv.Database(t)
	other := session(t, db, "SELECT pg_advisory_lock_shared(9)")
	upgrader := session(t, db, "SELECT pg_advisory_lock_shared(9)")
	db.Queue(t, upgrader, "SELECT pg_advisory_lock(9)")
	reader := startWaiter(t, db, "SELECT pg_advisory_lock_shared(9)")

	s := take(t, db.Pool(t))
	requireServerState(t, db, s)
	lock := find(t, s, pglock.Int64Key(9))
	requireBlockers(t, lock, pidOf(upgrader), monitor.Blocker{PID: pidOf(other), Kind: "hard"})
	// It holds the lock in a mode that does not conflict, and blocks only because it waits.
	requireBlockers(t, lock, reader, monitor.Blocker{PID: pidOf(upgrader), Kind: "soft"})
}

func TestSnapshotPreparedTransactionsHoldLocks(t *testing.T) {
	db := testenv.Database(t)
	gids := []string{db.Name() + " a", db.Name() + " b"} // prepared transactions have one namespace on the server
	for _, gid := range gids {
		session(t, db, "BEGIN", "SAVEPOINT s", "CREATE TABLE \""+gid+"\" ()", "SELECT pg_advisory_xact_lock_shared(3, 4)",
			"PREPARE TRANSACTION '"+gid+"'")
	}
	t.Cleanup(func() {
		for _, gid := range gids {
			execute(t, db.Connect(t), "ROLLBACK PREPARED '"+gid+"'")
		}
	})
	waiter := startWaiter(t, db, "SELECT pg_advisory_lock(3, 4)")

	s := take(t, db.Pool(t))
	requireServerState(t, db, s)
	lock := find(t, s, pglock.PairKey(3, 4))
	if len(lock.Holders) != 2 {
		t.Fatalf("holders: %+v", lock.Holders)
	}
	for i, holder := range lock.Holders {
		if !holder.Prepared() || holder.GID != gids[i] || holder.PreparedAt == nil || holder.User != s.Role ||
			holder.Database != db.Name() || len(holder.Hidden) != 0 {
			t.Errorf("holder %d: %+v", i, holder)
		}
	}
	requireBlockers(t, lock, waiter,
		monitor.Blocker{GID: gids[0], Kind: "hard"}, monitor.Blocker{GID: gids[1], Kind: "hard"})
}

func requireBlockers(t *testing.T, lock monitor.Lock, pid int32, want ...monitor.Blocker) {
	t.Helper()
	for _, waiter := range lock.Waiters {
		if waiter.PID == pid {
			requireEqual(t, fmt.Sprintf("blockers of %d", pid), texts(waiter.BlockedBy), texts(want))
			return
		}
	}
	t.Errorf("%d is not among the waiters %+v", pid, lock.Waiters)
}

func texts[T any](values []T) []string {
	var all []string
	for _, value := range values {
		all = append(all, fmt.Sprintf("%+v", value))
	}
	return all
}

func TestSnapshotTheSameKeyInTwoDatabasesIsTwoLocks(t *testing.T) {
	here, there := registered(t, "job"), testenv.Database(t)
	key := pglock.NewKey("job")
	lock := fmt.Sprintf("SELECT pg_advisory_lock(%d)", key.Int64())
	session(t, here, lock)
	holder := session(t, there, lock)
	startWaiter(t, there, lock)

	s := take(t, here.Pool(t))
	requireServerState(t, here, s)
	requireServerState(t, there, s)
	if found := find(t, s, key); found.Key != "job" || found.Database != here.Name() || len(found.Waiters) != 0 {
		t.Errorf("here: %+v", found)
	}
	held := heldBy(s, pidOf(holder))
	if len(held) != 1 || held[0].Key != pglock.Int64Key(key.Int64()).String() || held[0].Database != there.Name() ||
		held[0].Holders[0].Database != there.Name() || len(held[0].Waiters) != 1 {
		t.Errorf("there: %+v", held)
	}
	for _, db := range []*testenv.DB{here, there} {
		s := take(t, db.Pool(t))
		if first, found := s.Locks[0], find(t, s, key); first.Database != db.Name() || found.Database != db.Name() {
			t.Errorf("connected to %s: the first lock is of %s, the key's of %s", db.Name(), first.Database, found.Database)
		}
	}
	session(t, there, "SELECT pg_advisory_lock(1)")
	if lock, ok := take(t, here.Pool(t)).Find(pglock.Int64Key(1)); ok {
		t.Errorf("found a lock of another database: %+v", lock)
	}
}

// heldBy returns the locks that a session holds.
func heldBy(s *monitor.Snapshot, pid int32) []monitor.Lock {
	return slices.DeleteFunc(slices.Clone(s.Locks), func(l monitor.Lock) bool {
		return !slices.ContainsFunc(l.Holders, func(h monitor.Holder) bool { return h.PID == pid })
	})
}

// slowServer wraps a connection to a server whose pg_blocking_pids does not return.
type slowServer struct{ pglock.DB }

func (s slowServer) SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults {
	for _, query := range batch.QueuedQueries {
		if query.SQL == monitordb.Blockers {
			query.SQL, query.Arguments = "SELECT pg_sleep(3600)", nil
		}
	}
	return s.DB.SendBatch(ctx, batch)
}

func TestSnapshotLocksAreReadWithoutBlockersOnASlowServer(t *testing.T) {
	db := testenv.Database(t)
	session(t, db, "SELECT pg_advisory_lock(1)")
	startWaiter(t, db, "SELECT pg_advisory_lock(1)")
	s := take(t, slowServer{db.Pool(t)})
	requireEqual(t, "locks", locksOf(db, s), lines(db.AdvisoryLocks(t)))
	if !strings.Contains(s.BlockersMissing, "statement timeout") {
		t.Errorf("the reason is %q", s.BlockersMissing)
	}
	if edges := edgesOf(db, s); len(edges) != 0 {
		t.Errorf("unexpected edges: %v", edges)
	}
}

// The settings of a batch end with its transaction, which must not be the caller's.
func TestSnapshotAConnectionInATransactionIsRefused(t *testing.T) {
	db := testenv.Database(t)
	conn := session(t, db, "BEGIN")
	if _, err := monitor.Take(t.Context(), conn); err == nil || !strings.Contains(err.Error(), "in a transaction") {
		t.Errorf("a snapshot: %v", err)
	}
	if _, err := monitor.Terminate(t.Context(), conn, monitor.Target{}); err == nil || !strings.Contains(err.Error(), "in a transaction") {
		t.Errorf("a signal: %v", err)
	}
	execute(t, conn, "SELECT count(*) FROM pg_locks", "COMMIT")
	take(t, conn)
}
