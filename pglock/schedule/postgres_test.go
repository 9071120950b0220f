package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/runstore"
	"github.com/pglock-toolkit/pglock/internal/suites/scheduletest"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/locktest"
	"github.com/pglock-toolkit/pglock/pglock/rowlock"
	"github.com/pglock-toolkit/pglock/pglock/schedule"
)

var day = time.Now().Add(-24 * time.Hour).UTC().Truncate(time.Hour)

func nothing(context.Context, *pglock.Lock) error { return nil }

func wantIs(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("the error is %v, want one that is %v", err, want)
	}
}

func newJobs(l *pglock.Locker, opts ...schedule.Option) *scheduletest.Jobs {
	return &scheduletest.Jobs{Locker: l, Options: opts}
}

func runTx(
	t *testing.T, jobs *scheduletest.Jobs, db pglock.DB, due time.Time, fn func(context.Context, pgx.Tx, *pglock.Lock) error,
	opts ...schedule.Option,
) error {
	t.Helper()
	job, err := jobs.Job("job", opts...)
	must.Succeed(t, err)
	return job.RunTx(t.Context(), db, due, fn)
}

func TestScheduleRunTxCommitsTheRunWithItsEffects(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T, *pgxpool.Pool) *pglock.Locker{
		"sessions": func(t *testing.T, pool *pgxpool.Pool) *pglock.Locker { return open(t, pool) }, "rows": inRows,
	} {
		t.Run(name, func(t *testing.T) {
			_, pool := installed(t)
			commitsTheRunWithItsEffects(t, pool, newJobs(open(t, pool)))
		})
	}
	_, pool := installed(t)
	jobs, tx := newJobs(open(t, pool)), func(context.Context, pgx.Tx, *pglock.Lock) error { return nil }
	if err := runTx(t, jobs, pool, day, nil); err == nil {
		t.Error("a nil function is no error")
	}
	if err := runTx(t, jobs, nil, day, tx); err == nil {
		t.Error("a nil DB is no error")
	}
	if err := runTx(t, jobs, pool, day, tx, schedule.WithMark(schedule.MarkStart)); err == nil {
		t.Error("MarkOn is no error")
	}
}

func inRows(t *testing.T, pool *pgxpool.Pool) *pglock.Locker {
	t.Helper()
	l, err := rowlock.New(pool)
	return must.Closing(t, l, err)
}

func commitsTheRunWithItsEffects(t *testing.T, pool *pgxpool.Pool, jobs *scheduletest.Jobs) {
	must.Succeed(t, execute(t, pool, "CREATE TABLE effects (run text)"))
	run := func(what string, fail error) error {
		return runTx(t, jobs, pool, day, func(ctx context.Context, tx pgx.Tx, _ *pglock.Lock) error {
			_, err := tx.Exec(ctx, "INSERT INTO effects VALUES ($1)", what)
			return errors.Join(err, fail)
		})
	}
	boom := errors.New("boom")
	wantIs(t, run("fails", boom), boom)
	must.Succeed(t, run("succeeds", nil))
	wantIs(t, run("again", nil), pglock.ErrDone)
	wantIs(t, jobs.Run(t.Context(), "job", day, nothing), pglock.ErrDone)
	if got := must.One[string](t, pool, "SELECT string_agg(run, ' ') FROM effects"); got != "succeeds" {
		t.Errorf("the effects are %q", got)
	}
	if n := must.One[int](t, pool, "SELECT attempts FROM pglock.runs WHERE finished IS NOT NULL AND done"); n != 2 {
		t.Errorf("%d attempts were recorded", n)
	}
}

// A process that has lost its lock without knowing cannot commit work that its successor has done.
func TestScheduleRunTxOfALostLockDoesNotCommit(t *testing.T) {
	t.Parallel()
	db, pool := installed(t)
	_, err := pool.Exec(t.Context(), "CREATE TABLE effects (run text)")
	must.Succeed(t, err)
	effect := func(ctx context.Context, tx pgx.Tx, what string) error {
		_, err := tx.Exec(context.WithoutCancel(ctx), "INSERT INTO effects VALUES ($1)", what)
		return err
	}
	jobs, successor := newJobs(open(t, pool)), newJobs(open(t, db.Pool(t)))
	succeeded := make(chan error, 1)
	err = runTx(t, jobs, pool, day, func(ctx context.Context, tx pgx.Tx, lock *pglock.Lock) error {
		holder := must.One[int](t, pool, `SELECT pid FROM pg_locks JOIN pg_database AS d ON d.oid = database
			WHERE datname = current_database() AND locktype = 'advisory' AND (classid::int8 << 32 | objid::int8) = $1`, lock.Key().Int64())
		if _, err := pool.Exec(context.WithoutCancel(ctx), "SELECT pg_terminate_backend($1)", holder); err != nil {
			return err
		}
		<-lock.Done()
		go func() {
			succeeded <- runTx(t, successor, pool, day, func(ctx context.Context, tx pgx.Tx, _ *pglock.Lock) error {
				return effect(ctx, tx, "successor")
			})
		}()
		testenv.WaitUntil(t, "the successor waits for this transaction", func() bool {
			return must.One[int](t, pool, `SELECT count(*)::int FROM pg_stat_activity
				WHERE datname = current_database() AND wait_event_type = 'Lock'`) > 0
		})
		return effect(ctx, tx, "zombie")
	})
	second := <-succeeded
	// The first holder's transaction was guarded before it lost the lock, so either may commit, but never both.
	if n := must.One[int](t, pool, "SELECT count(*)::int FROM effects"); n != 1 || (err == nil) == (second == nil) && second == nil {
		t.Errorf("%d effects; the first got %v, its successor %v", n, err, second)
	}
	if second != nil {
		wantIs(t, second, pglock.ErrDone)
	}
}

// A call of a Locker inside the function counts as its transaction waiting, for which another holder's transaction waits.
func TestScheduleRunTxEndsADeadlockThroughItsTransaction(t *testing.T) {
	t.Parallel()
	db, pool := installed(t)
	_, err := pool.Exec(t.Context(), "CREATE TABLE effects (id int PRIMARY KEY, runs int); INSERT INTO effects VALUES (1, 0)")
	must.Succeed(t, err)
	update := func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE effects SET runs = runs + 1")
		return err
	}
	l, other := open(t, pool), open(t, db.Pool(t))
	lock, err := other.Lock(t.Context(), pglock.NewKey("k"))
	must.Succeed(t, err)
	updated := make(chan error, 1)
	err = runTx(t, newJobs(l), pool, day, func(ctx context.Context, tx pgx.Tx, _ *pglock.Lock) error {
		if err := update(ctx, tx); err != nil {
			return err
		}
		go func() {
			updated <- pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
				return errors.Join(lock.GuardTx(t.Context(), tx), update(t.Context(), tx))
			})
		}()
		_, err := l.Lock(ctx, lock.Key(), pglock.MaxWait(10*time.Second))
		return err
	})
	wantIs(t, err, pglock.ErrDeadlock)
	must.Succeed(t, errors.Join(<-updated, lock.Unlock(t.Context())))
}

func TestScheduleRunTxNeedsPostgreSQL(t *testing.T) {
	t.Parallel()
	_, pool := installed(t)
	l, err := locktest.NewMemory()
	must.Closing(t, l, err)
	err = runTx(t, newJobs(l), pool, day, func(context.Context, pgx.Tx, *pglock.Lock) error { return nil })
	wantIs(t, err, pglock.ErrUnsupported)
}

// A transaction that has recorded a run keeps others of its job waiting while it is open, however many, and those of no other job.
func TestScheduleRunsOfAnOpenTransactionsJobDoNotHoldUpOthers(t *testing.T) {
	t.Parallel()
	_, pool := installed(t)
	for _, l := range []*pglock.Locker{open(t, pool), inRows(t, pool)} {
		tx, err := pool.Begin(t.Context())
		must.Succeed(t, err)
		defer func() { _ = tx.Rollback(context.Background()) }()
		step := runstore.Request{Job: fmt.Sprintf("%p", l), Due: day, Step: runstore.StepDone}
		step.Tx = tx
		_, err = runstore.Record(t.Context(), l, step)
		must.Succeed(t, err)
		const waiting = 5
		recorded := make(chan error, waiting)
		for i := range waiting {
			next := step
			next.Tx = nil
			next.Due = day.Add(time.Duration(i+1) * time.Minute)
			go func() { _, err := runstore.Record(t.Context(), l, next); recorded <- err }()
		}
		since := must.One[time.Time](t, tx, "SELECT clock_timestamp()")
		testenv.WaitUntil(t, "they have waited for longer than one turn", func() bool {
			_, err := runstore.Record(t.Context(), l, runstore.Request{Job: "other", Due: day, Step: runstore.StepDone})
			must.Succeed(t, err)
			return must.One[bool](t, pool, "SELECT clock_timestamp() > $1::timestamptz + interval '2 s'", since)
		})
		if len(recorded) > 0 {
			t.Errorf("a run was recorded before the transaction had ended, or failed: %v", <-recorded)
		}
		must.Succeed(t, tx.Commit(t.Context()))
		for range waiting {
			must.Succeed(t, <-recorded)
		}
	}
}

// recording are the connections for records: no locks are on them, and their last transaction was one.
const recording = ` FROM pg_stat_activity WHERE datname = current_database() AND query ~ '\mCOMMIT\M' AND pid <> pg_backend_pid()
	AND application_name LIKE '%(pglock %' AND pid NOT IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory')`
