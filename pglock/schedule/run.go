package schedule

import (
	"context"
	"slices"
	"time"

	"github.com/pglock-toolkit/pglock/internal/hooks"
	"github.com/pglock-toolkit/pglock/internal/lockkeys"
	"github.com/pglock-toolkit/pglock/internal/runstore"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/mark"
)

// run is one run.
type run struct {
	*Job
	opts []pglock.LockOption
	due  time.Time

	ran  bool
	took time.Duration
}

// work is the part of a run under the lock.
type work func(ctx context.Context, lock *pglock.Lock) error

// locked carries out work under the job's lock.
//
// It looks for the record first, so that processes that come too late do not queue up for the lock. If the due time is
// ahead of the server's clock, it waits for it before it takes the lock. Under the lock it checks again when it records
// the run; only that check decides.
func (r *run) locked(ctx context.Context, do work) error {
	if err := r.await(ctx, runstore.StepLook); err != nil {
		return err
	}
	// The mark says of the wait, and then of the run, what it is for.
	m := mark.Begin(ctx, r.locker, lockkeys.TickMark, pglock.Use{Kind: hooks.UseTickMark, Key: r.key})
	defer m.Unlock(ctx)
	return r.locker.Do(ctx, r.key, func(ctx context.Context, lock *pglock.Lock) error {
		m.Now()
		return do(ctx, lock)
	}, append(slices.Clone(r.opts), hooks.WithUse(r.use()).(pglock.LockOption))...)
}

// plain is a run that is recorded apart from its work.
//
// If two processes believe that they hold the lock, since one of them was frozen, the record decides with
// MarkStart: only one of them can create the row or key. With MarkSuccess a run whose lock was lost is not
// recorded, since another process may be running it.
func (r *run) plain(fn work) work {
	return func(ctx context.Context, lock *pglock.Lock) error {
		begin := runstore.StepStart
		if r.config.mark == MarkSuccess {
			begin = runstore.StepAttempt
		}
		if err := r.await(ctx, begin); err != nil {
			return err
		}
		if err := r.call(ctx, lock, fn); err != nil {
			return err
		}
		if lock.Err() != nil {
			return nil // Do reports the loss
		}
		return r.record(ctx)
	}
}

// dueKey is the key of the due time in the context of a run.
type dueKey struct{}

// Due returns the due time of the run whose context ctx is or descends from: in UTC, in whole microseconds. A run that
// [WithCatchUp] added has that of the missed run. ok is false if ctx belongs to no run.
func Due(ctx context.Context) (due time.Time, ok bool) {
	due, ok = ctx.Value(dueKey{}).(time.Time)
	return due, ok
}

// call runs fn.
func (r *run) call(ctx context.Context, lock *pglock.Lock, fn work) error {
	r.ran = true
	start := driver.Now()
	defer func() { r.took = driver.Now().Sub(start) }()
	return fn(context.WithValue(ctx, dueKey{}, r.due), lock)
}

// await takes a step once the server's clock has reached the due time. The error matches [pglock.ErrDone] if the run
// is done.
func (r *run) await(ctx context.Context, step runstore.Step) error {
	done, err := runstore.Await(ctx, r.locker, r.request(step))
	if err == nil && done {
		return pglock.ErrDone
	}
	return err
}

// record takes the step that ends a run. The work has been done, so it does not depend on ctx.
func (r *run) record(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordWithin)
	defer cancel()
	_, err := runstore.Record(ctx, r.locker, r.request(runstore.StepDone))
	return err
}

// recordWithin leaves time to connect again, and for others that use the connection.
const recordWithin = time.Minute

func (r *run) request(step runstore.Step) runstore.Request {
	return runstore.Request{Job: r.name, Due: r.due, Step: step, Keep: r.config.keep}
}
