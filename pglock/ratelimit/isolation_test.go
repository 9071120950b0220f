package ratelimit_test

import (
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/suites/ratelimittest"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock/ratelimit"
)

// Above READ COMMITTED a statement that waited for a row fails if the row has changed. The limit must be exact there
// too: the row counts every call that was let through.
func TestRatelimitWhereTheDefaultIsAboveReadCommitted(t *testing.T) {
	for _, level := range []string{"repeatable read", "serializable"} {
		db, _ := installed(t)
		const processes, callers, calls, count = 4, 3, 20, 150
		limit := ratelimit.Limit{Count: count, Per: 24 * time.Hour}
		var mu sync.Mutex
		granted := 0
		var wg sync.WaitGroup
		for range processes {
			config := db.Config(t)
			config.ConnConfig.RuntimeParams["default_transaction_isolation"] = level
			pool, err := pgxpool.NewWithConfig(t.Context(), config)
			must.Succeed(t, err)
			t.Cleanup(pool.Close)
			l := open(t, pool)
			for range callers {
				wg.Go(func() {
					for range calls {
						d, err := ratelimittest.Allow(t.Context(), l, "k", limit)
						if err != nil {
							t.Errorf("%s: %v", level, err)
							return
						}
						if d.OK {
							mu.Lock()
							granted++
							mu.Unlock()
						}
					}
				})
			}
		}
		wg.Wait()
		if granted != count {
			t.Errorf("%s: %d of %d were let through, want %d", level, granted, processes*callers*calls, count)
		}
	}
}
