package schedule

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pglock-toolkit/pglock/internal/shorttext"
	"github.com/pglock-toolkit/pglock/pglock"
)

// ErrAlreadyRan: the run for this due time counts as done, here or in another process, or is so old that its record is
// no longer kept. There is nothing to do.
var ErrAlreadyRan = errors.New("already ran")

// Jobs runs jobs. Make one for each Locker and share it. All methods may be called concurrently.
type Jobs struct {
	locker *pglock.Locker
	store  store
	config config
}

// New returns Jobs whose locks and records are on the server of l. The options apply to every run. It does not connect.
func New(l *pglock.Locker, opts ...Option) (*Jobs, error) {
	if l == nil {
		return nil, errors.New("pglock/schedule: the Locker is nil")
	}
	config, err := config{mark: Start, keep: defaultKeep}.with(opts)
	if err != nil {
		return nil, fmt.Errorf("pglock/schedule: %w", err)
	}
	return &Jobs{l, store{l}, config}, nil
}

// Run runs the job name for one due time, by calling fn. If that run has been done, in this process or another, fn is
// not called, and the error matches [ErrAlreadyRan]. Otherwise Run returns when fn has returned; the error is fn's,
// joined with [pglock.ErrLost] as in [pglock.Locker.Do] if the lock was lost. fn's context ends with ctx or with the
// lock.
//
// fn gets its due time from [Due].
//
// due is an instant; its location does not matter, and it is cut to whole microseconds. If it is ahead of the server's
// clock, Run waits until the clock has reached it. Then it waits for the lock of the job's name while another process
// is busy with an earlier run, or with this one; see [MaxWait].
//
// If fn panics or calls [runtime.Goexit], the lock is released and the panic or exit continues; the
// run counts as failed.
func (j *Jobs) Run(
	ctx context.Context, name string, due time.Time, fn func(ctx context.Context, lock *pglock.Lock) error, opts ...JobOption,
) error {
	if fn == nil {
		return failed(name, due, errors.New("the function is nil"))
	}
	return j.run(ctx, name, due, opts, func(r *run) error { return r.locked(ctx, r.plain(fn)) })
}

// run prepares a run and the missed ones that come before it, and carries out each of them.
func (j *Jobs) run(ctx context.Context, name string, due time.Time, opts []JobOption, carryOut func(*run) error) error {
	config, err := j.config.with(opts)
	if err == nil {
		err = check(name, due)
	}
	if err != nil {
		return failed(name, due, err)
	}
	due = due.UTC().Truncate(time.Microsecond)
	one := func(due time.Time) (err error) {
		r := &run{jobs: j, config: config, name: name, due: due}
		err = failed(name, due, errPanicked) // unless carryOut returns
		defer func() {
			if o := j.locker.Observer(); o.Ticked != nil {
				o.Ticked(ctx, pglock.TickedInfo{Job: name, Due: due, Ran: r.ran, Took: r.took, Err: err})
			}
		}()
		if err = carryOut(r); err != nil {
			err = failed(name, due, err)
		}
		return err
	}
	missed, err := j.missed(ctx, config, name, due)
	if err != nil {
		return failed(name, due, fmt.Errorf("look for missed runs: %w", err))
	}
	var failures error
	for _, due := range missed {
		if err := one(due); err != nil && !errors.Is(err, ErrAlreadyRan) {
			failures = errors.Join(failures, err)
		}
	}
	return errors.Join(failures, one(due))
}

// errPanicked is the error that the Observer gets for a run that does not return.
var errPanicked = errors.New("the function has panicked, or called runtime.Goexit")

// missed returns the due times before due that CatchUp asks for, oldest first. The schedule is followed from the k-th
// record before due: runs missed before that are more than k runs ago.
func (j *Jobs) missed(ctx context.Context, c config, name string, due time.Time) ([]time.Time, error) {
	if c.catchUp == 0 {
		return nil, nil
	}
	known, err := j.store.RecordRun(ctx, RunRequest{Job: name, Due: due, Step: StepLook, Newest: c.catchUp})
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

const maxName = 1024

// check refuses what cannot be recorded.
func check(name string, due time.Time) error {
	switch {
	case name == "":
		return errors.New("the job's name is empty")
	case len(name) > maxName:
		return fmt.Errorf("the job's name has %d bytes, and at most %d fit", len(name), maxName)
	case !utf8.ValidString(name) || strings.Contains(name, "\x00"):
		return errors.New("the job's name is not valid UTF-8, or contains NUL")
	case due.IsZero():
		return errors.New("the due time is zero")
	case due.Year() < 1 || due.Year() > 9999:
		return fmt.Errorf("the due time is in the year %d", due.Year())
	}
	return nil
}

// failed adds what was attempted to an error.
func failed(name string, due time.Time, err error) error {
	return fmt.Errorf("pglock/schedule: %s due %s: %w", shorttext.Quote(name), due.UTC().Format(time.RFC3339Nano), err)
}
