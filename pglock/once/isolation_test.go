package once_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock/once"
)

// Above READ COMMITTED a transaction that began before a row changed cannot change it. Prune meets this error when
// another call has moved the ring, and tries again. Here it waits for the sequence that identifies the schema until the
// ring has changed.
func TestOncePruneWhereTheDefaultIsAboveReadCommitted(t *testing.T) {
	for _, level := range []string{"repeatable read", "serializable"} {
		db, pool := installed(t)
		config := db.Config(t)
		config.MaxConns = 1
		config.ConnConfig.RuntimeParams["default_transaction_isolation"] = level
		strict, err := pgxpool.NewWithConfig(t.Context(), config)
		must.Succeed(t, err)
		t.Cleanup(strict.Close)
		must.Succeed(t, once.Prune(t.Context(), strict, keep)) // prepares the statements that the next one sends
		age(t, pool, keep/2+time.Minute)

		other := begin(t, pool)
		execute(t, other, "ALTER SEQUENCE pglock.fence OWNER TO CURRENT_USER")
		execute(t, other, "UPDATE pglock.once_slots SET since = since - interval '1 second'")
		pruned := make(chan error, 1)
		go func() { pruned <- once.Prune(bounded(t), strict, keep) }()
		for one[int](t, pool, `SELECT count(*) FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid)
			WHERE NOT l.granted AND l.locktype = 'relation' AND a.datname = current_database()`) == 0 {
			select {
			case err := <-pruned:
				t.Fatalf("%s: Prune did not wait, so this test shows nothing: %v", level, err)
			case <-time.After(10 * time.Millisecond):
			}
		}
		commit(t, other)
		if err := <-pruned; err != nil {
			t.Errorf("%s: %v", level, err)
		}
		if now := current(t, pool); now != 1 {
			t.Errorf("%s: the current partition is %d, want 1", level, now)
		}
	}
}
