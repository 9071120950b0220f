package monitor_test

import (
	"fmt"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/monitor"
)

// A server with few sessions that hold many locks, like those of pglock's Lockers, with names and without.
func BenchmarkTake(b *testing.B) {
	for _, locks := range []int{0, 5000} {
		b.Run(fmt.Sprintf("locks=%d", locks), func(b *testing.B) {
			db := testenv.Database(b)
			for i := range 2 {
				session(b, db, fmt.Sprintf("SELECT pg_advisory_lock(n) FROM generate_series(%d, %d) n",
					i*locks/2+1, (i+1)*locks/2))
			}
			benchmarkTake(b, db, locks)
		})
	}
	b.Run("locks=5000 names=5000", func(b *testing.B) {
		db := testenv.Database(b)
		migrate(b, db)
		session(b, db, "SELECT pglock.register('name ' || n), pg_advisory_lock(pglock.key('name ' || n)) "+
			"FROM generate_series(1, 5000) n", "ANALYZE pglock.names")
		benchmarkTake(b, db, 5000)
	})
	b.Run("waiters=100", func(b *testing.B) {
		db := testenv.Database(b)
		session(b, db, "SELECT pg_advisory_lock(1)")
		for range 100 {
			startWaiter(b, db, "SELECT pg_advisory_lock(1)")
		}
		benchmarkTake(b, db, 1)
	})
}

func benchmarkTake(b *testing.B, db *testenv.DB, locks int) {
	pool := db.Pool(b)
	b.ReportAllocs()
	for b.Loop() {
		s, err := monitor.Take(b.Context(), pool)
		must.Succeed(b, err)
		if len(s.Locks) != locks {
			b.Fatalf("%d locks, want %d", len(s.Locks), locks)
		}
	}
}
