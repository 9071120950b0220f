package cli_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

// pileUp lets so many sessions wait for the key 42 until the test ends. It starts a server of its own.
func pileUp(t *testing.T, waiters int) *testenv.DB {
	t.Helper()
	db := testenv.On(t, testenv.NewServer(t, map[string]string{"max_connections": fmt.Sprint(waiters + 20)}))
	hold(t, db, "SET application_name = 'holder'; SELECT pg_advisory_lock(42)")
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	for i := range waiters {
		conn := db.Connect(t)
		_, err := conn.Exec(t.Context(), fmt.Sprintf("SET application_name = 'waiter-%d'", i+1))
		must.Succeed(t, err)
		go func() {
			_, _ = conn.Exec(ctx, "SELECT pg_advisory_lock(42)") // it ends with the test
			ended <- struct{}{}
		}()
	}
	t.Cleanup(func() {
		cancel()
		for range waiters {
			<-ended
		}
	})
	testenv.WaitUntil(t, "all wait", func() bool {
		rows, err := db.Pool(t).Query(t.Context(), "SELECT count(*) FROM pg_locks WHERE NOT granted")
		must.Succeed(t, err)
		n, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[int])
		must.Succeed(t, err)
		return n == waiters
	})
	return db
}

// What is written of a pile-up grows with the number of waiters, not with that of pairs.
func TestLongMonitorPileUpOf480WaitersIsSmall(t *testing.T) {
	const waiters = 480
	db := pileUp(t, waiters)
	once := on(t, db, "monitor", "--once", "-o", "json").run()
	wantCode(t, once, 0)
	snapshot, last := parse(t, once.stdout), 0
	lock := snapshot.Locks[0]
	for _, w := range lock.Waiters {
		if last = max(last, w.Ahead); len(w.BlockedBy) != 1 || w.BlockedBy[0].PID != lock.Holders[0].PID {
			t.Errorf("%d is blocked by %+v", w.PID, w.BlockedBy)
		}
	}
	if len(once.stdout) > 1_000_000 || len(lock.Waiters) != waiters || last != waiters-1 {
		t.Errorf("%d bytes of JSON have %d waiters, the last of whom has %d ahead", len(once.stdout), len(lock.Waiters), last)
	}
	table := on(t, db, "monitor", "--once").run()
	wantCode(t, table, 0)
	wantText(t, table.stdout, " holder, idle for ", ": frees 480, longest wait ", "… 479 more, ", "\n  pglock terminate")
	if lines := strings.Count(table.stdout, "\n"); lines > 20 || len(table.stdout) > 4000 {
		t.Errorf("the table has %d bytes in %d lines:\n%s", len(table.stdout), lines, table.stdout)
	}
	wantText(t, blockersSQL(t, db.ConnString()), " @42 ExclusiveLock 480 ", "\n@42 ExclusiveLock 480 ")
	t.Logf("%d bytes of JSON, %d of text\n%s", len(once.stdout), len(table.stdout), table.stdout)
}
