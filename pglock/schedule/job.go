package schedule

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pglock-toolkit/pglock/internal/hooks"
	"github.com/pglock-toolkit/pglock/internal/options"
	"github.com/pglock-toolkit/pglock/internal/runstore"
	"github.com/pglock-toolkit/pglock/internal/shorttext"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/internal/records"
)

// Job is a job that is run once for each time it is due. Make it with [New]. All methods may be called concurrently. It
// holds nothing between runs, and needs no closing.
type Job struct {
	locker *pglock.Locker
	key    pglock.Key
	name   string // the key's text, under which runs are recorded
	config config
}

// New returns the job named by key: runs hold the lock of that key, and are recorded on the server of l under the
// key's text, [pglock.Key.String]. Jobs with equal keys on the same server are one job, in all processes. New does
// not connect. A nil Locker and an invalid key are errors.
func New(l *pglock.Locker, key pglock.Key, opts ...Option) (*Job, error) {
	if l == nil {
		return nil, errors.New("pglock/schedule: the Locker is nil")
	}
	if err := check(key); err != nil {
		return nil, fmt.Errorf("pglock/schedule: %w", err)
	}
	config := config{mark: MarkStart, keep: defaultKeep}
	if err := options.Apply(&config, opts); err != nil {
		return nil, fmt.Errorf("pglock/schedule: %s: %w", shorttext.Quote(key.String()), err)
	}
	return &Job{l, key, key.String(), config}, nil
}

// Run runs the job for one due time, by calling fn. If that run has been done, in this process or another, fn is not
// called, and the error matches [pglock.ErrDone]: the run for this due time counts as done, or is so old that its
// record is no longer kept. Otherwise Run returns when fn has returned; the error is fn's, joined with [pglock.ErrLost]
// as in [pglock.Locker.Do] if the lock was lost. fn's context ends with ctx or with the lock. fn gets its due time from
// [Due].
//
// due is an instant; its location does not matter, and it is cut to whole microseconds. If it is ahead of the server's
// clock, Run waits until the clock has reached it. Then it waits for the job's lock while another process is busy with
// an earlier run, or with this one. [pglock.MaxWait] bounds the wait for the lock; with zero, a run is skipped while
// the previous one is still running. [pglock.MaxHold] ends the lock, and the context of a run that takes too long, so
// that others get their turn whatever fn does. [pglock.Shared] is an error.
//
// If fn panics or calls [runtime.Goexit], the lock is released and the panic or exit continues; the run counts as
// failed.
func (j *Job) Run(
	ctx context.Context, due time.Time, fn func(ctx context.Context, lock *pglock.Lock) error, opts ...pglock.LockOption,
) error {
	if fn == nil {
		return j.failed(due, errors.New("the function is nil"))
	}
	return j.run(ctx, due, opts, func(r *run) error { return r.locked(ctx, r.plain(fn)) })
}

// run prepares a run and the missed ones that come before it, and carries out each of them.
func (j *Job) run(ctx context.Context, due time.Time, opts []pglock.LockOption, carryOut func(*run) error) error {
	if err := errors.Join(checkOptions(opts), checkDue(due)); err != nil {
		return j.failed(due, err)
	}
	due = due.UTC().Truncate(time.Microsecond)
	one := func(due time.Time) (err error) {
		r := &run{Job: j, opts: opts, due: due}
		err = j.failed(due, errPanicked) // unless carryOut returns
		defer func() {
			hooks.Observe(ctx, j.locker, pglock.Event{
				Type: pglock.EventRecorded, Use: j.use(), Due: due, Ran: r.ran, Took: r.took, Err: err,
			})
		}()
		if err = carryOut(r); err != nil {
			err = j.failed(due, err)
		}
		return err
	}
	missed, err := j.missed(ctx, due)
	if err != nil {
		return j.failed(due, fmt.Errorf("look for missed runs: %w", err))
	}
	var failures error
	for _, due := range missed {
		if err := one(due); err != nil && !errors.Is(err, pglock.ErrDone) {
			failures = errors.Join(failures, err)
		}
	}
	return errors.Join(failures, one(due))
}

// errPanicked is the error that the Observer gets for a run that does not return.
var errPanicked = errors.New("the function has panicked, or called runtime.Goexit")

func (j *Job) use() pglock.Use { return pglock.Use{Kind: pglock.UseTick, Key: j.key} }

// missed returns the due times before due that WithCatchUp asks for, oldest first. The schedule is followed from the
// k-th record before due: runs missed before that are more than k runs ago.
func (j *Job) missed(ctx context.Context, due time.Time) ([]time.Time, error) {
	c := j.config
	if c.catchUp == 0 {
		return nil, nil
	}
	known, err := runstore.Record(ctx, j.locker, runstore.Request{Job: j.name, Due: due, Step: runstore.StepLook, Newest: c.catchUp})
	if err != nil || len(known.Dues) == 0 {
		return nil, err
	}
	done := map[time.Time]bool{}
	for _, d := range known.Dues {
		done[d.UTC()] = true
	}
	var missed []time.Time
	for t := known.Dues[len(known.Dues)-1]; ; {
		if ctx.Err() != nil { // there can be very many
			return nil, context.Cause(ctx)
		}
		next := c.schedule.Next(t)
		if !next.After(t) || !next.Before(due) { // a schedule that has ended returns the zero time
			break
		}
		t = next
		if utc := t.UTC().Truncate(time.Microsecond); !done[utc] {
			missed = append(missed, utc)
		}
		if len(missed) > c.catchUp {
			missed = missed[1:]
		}
	}
	return missed, nil
}

// check refuses a key whose text cannot be recorded.
func check(key pglock.Key) error {
	if err := key.Check(); err != nil {
		return err
	}
	if err := records.CheckText("job's name", key.String(), pglock.MaxName); err != nil { // with an @ in front
		return fmt.Errorf("%w: %w", pglock.ErrInvalidKey, err)
	}
	return nil
}

func checkDue(due time.Time) error {
	switch {
	case due.IsZero():
		return errors.New("the due time is zero")
	case due.Year() < 1 || due.Year() > 9999:
		return fmt.Errorf("the due time is in the year %d", due.Year())
	}
	return nil
}

// checkOptions refuses options that do not fit a run.
func checkOptions(opts []pglock.LockOption) error {
	o, err := hooks.ReadLockOptions(opts)
	switch {
	case err != nil:
		return err
	case o.Shared:
		return errors.New("a job takes no Shared: its runs exclude each other")
	}
	return nil
}

// failed adds what was attempted to an error.
func (j *Job) failed(due time.Time, err error) error {
	return fmt.Errorf("pglock/schedule: %s due %s: %w", shorttext.Quote(j.name), due.UTC().Format(time.RFC3339Nano), err)
}
