package rowlock_test

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/runstore"
	"github.com/pglock-toolkit/pglock/internal/suites/leadertest"
	"github.com/pglock-toolkit/pglock/internal/suites/scheduletest"
	"github.com/pglock-toolkit/pglock/internal/suites/semaphoretest"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
)

// The suites of the packages on top of locks, through the pooler.

func TestLeaderPassesTheSuite(t *testing.T) {
	t.Parallel()
	owner, db := installed(t)
	leadertest.Exercise(t, opener(pooled(t, db)), terminates(owner))
}

func TestSemaphorePassesTheSuite(t *testing.T) {
	t.Parallel()
	owner, db := installed(t)
	semaphoretest.Exercise(t, opener(pooled(t, db)), terminates(owner))
}

func TestSchedulePassesTheSuite(t *testing.T) {
	t.Parallel()
	_, db := installed(t)
	scheduletest.Exercise(t, opener(pooled(t, db)))
}

// terminates ends the process that holds a key.
func terminates(owner *pgxpool.Pool) func(testing.TB, pglock.Key) {
	return func(t testing.TB, key pglock.Key) {
		t.Helper()
		space := 1
		if _, _, pair := key.Pair(); pair {
			space = 2
		}
		var ended bool
		err := owner.QueryRow(t.Context(), `SELECT pglock.lease_terminate(holder) FROM pglock.row_locks
			WHERE granted AND space = $1 AND number = $2`, space, key.Int64()).Scan(&ended)
		must.Succeed(t, err)
		if !ended {
			t.Fatal("the holder was over already")
		}
	}
}

// Whatever asks next, for all connections were used a moment before, and all have ended.
func TestASessionThatEndsUnnoticedFailsNothing(t *testing.T) {
	t.Parallel()
	pool, _ := installed(t)
	l := open(t, pool)
	run := runstore.Request{Job: "job", Due: time.Now().Add(-time.Hour).UTC().Truncate(time.Second), Step: runstore.StepLook}
	held := lock(t, l)
	_, err := held.Fence(t.Context())
	must.Succeed(t, err)
	for what, ask := range map[string]func() error{
		"the step of a run": func() error {
			run.Due = run.Due.Add(-time.Hour)
			start := run
			start.Step = runstore.StepStart
			state, err := runstore.Record(t.Context(), l, start)
			if err == nil && state.Done {
				err = errors.New("it was recorded twice")
			}
			return err
		},
		"Verify":  func() error { return held.Verify(t.Context()) },
		"Fence":   func() error { _, err := held.Fence(t.Context()); return err },
		"Holders": func() error { _, err := l.Holders(t.Context(), key); return err },
		"TryLock": func() error { _, err := l.TryLock(t.Context(), pglock.NewKey("another")); return err },
	} {
		_, err := runstore.Record(t.Context(), l, run)
		must.Succeed(t, err)
		tx, err := pool.Begin(t.Context())
		must.Succeed(t, err)
		_, err = tx.Exec(t.Context(), "LOCK TABLE pglock.leases")
		must.Succeed(t, err)
		verified := make(chan error)
		for range 3 { // each on a connection of its own
			go func() { verified <- held.Verify(t.Context()) }()
		}
		testenv.WaitUntil(t, "all connections for calls are in use", func() bool {
			return must.One[bool](t, tx, `SELECT count(*) = 3 FROM pg_locks AS l JOIN pg_database AS d ON d.oid = l.database
				WHERE datname = current_database() AND relation = 'pglock.leases'::regclass AND NOT granted`)
		})
		must.Succeed(t, tx.Rollback(t.Context()))
		for range 3 {
			must.Succeed(t, <-verified)
		}
		_, err = pool.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid()`)
		must.Succeed(t, err)
		if err := ask(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	unlock(t, held)
}
