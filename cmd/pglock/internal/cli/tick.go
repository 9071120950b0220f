package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pglock-toolkit/pglock/internal/ticks"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/schedule"
)

const tickHelp = `With --tick the command runs once for each due time, on the first machine to
start it. A lock alone only keeps runs from overlapping. A tick is @hourly,
@daily, @weekly (from Sunday), @monthly or @yearly, all in UTC, or @every and a
duration, counted from 1970. The due time is the last one by this machine's
clock; if that is ahead of the server's clock, pglock waits. So all machines may
have the same line in their crontabs, even if their clocks differ:

  0 * * * *  pglock run --tick @hourly report -- ./report.sh

Where the crontab has local time, do not start a @daily tick near midnight UTC:
when clocks change, one day of UTC would have two starts, and another one none.

If the tick has already been run, the exit code is 0. A tick counts as run when
its command starts or, with --until-success, when it has ended with code 0;
until then the next pglock runs it again. The command gets PGLOCK_DUE in its
environment. Ticks are recorded in schema pglock, or on Redis.`

// tick is the value of the flag --tick.
type tick struct {
	spec string
	last func(time.Time) time.Time // returns the last due time that is not after a time
}

func (t *tick) String() string { return t.spec }
func (t *tick) Type() string   { return "@hourly" }

func (t *tick) Set(spec string) error {
	date := func(date func(time.Time) time.Time) func(time.Time) time.Time {
		return func(now time.Time) time.Time { return date(now.UTC()) }
	}
	known := map[string]func(time.Time) time.Time{
		"@hourly": date(func(t time.Time) time.Time { return t.Truncate(time.Hour) }),
		"@daily": date(func(t time.Time) time.Time {
			return time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC)
		}),
		"@weekly": date(func(t time.Time) time.Time {
			return time.Date(t.Year(), t.Month(), t.Day()-int(t.Weekday()), 0, 0, 0, 0, time.UTC)
		}),
		"@monthly": date(func(t time.Time) time.Time {
			return time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
		}),
		"@yearly": date(func(t time.Time) time.Time { return time.Date(t.Year(), 1, 1, 0, 0, 0, 0, time.UTC) }),
	}
	known["@midnight"], known["@annually"] = known["@daily"], known["@yearly"]
	last := known[spec]
	if text, every := strings.CutPrefix(spec, "@every "); every {
		var period seconds
		if err := period.Set(strings.TrimSpace(text)); err != nil {
			return err
		}
		step := time.Duration(period).Truncate(time.Microsecond)
		if step < time.Second {
			return errors.New("a tick must be at least a second long")
		}
		last = func(now time.Time) time.Time {
			return now.UTC().Add(-time.Duration(now.UnixNano() % int64(step)))
		}
	}
	if last == nil {
		return errors.New("want @hourly, @daily, @weekly, @monthly, @yearly, or @every and a duration")
	}
	t.spec, t.last = spec, last
	return nil
}

// checkTick refuses flags that contradict --tick.
func (r *run) checkTick(cmd *cobra.Command, key pglock.Key) error {
	switch {
	case r.tick.last == nil && r.untilSuccess:
		return misuse(cmd, "--until-success needs --tick")
	case r.tick.last == nil:
		return nil
	case r.shared:
		return misuse(cmd, "--tick contradicts -s: runs of a tick exclude each other")
	case key.Name() == "":
		return misuse(cmd, "--tick needs a key that is a name, which %q is not", key)
	}
	r.due = r.tick.last(time.Now()).Truncate(time.Microsecond)
	return nil
}

// ticks reports whether the command runs for a due time.
func (r *run) ticks() bool { return !r.due.IsZero() }

// begin and end are the steps before and after the command.
func (r *run) begin() schedule.Step {
	if r.untilSuccess {
		return schedule.StepAttempt
	}
	return schedule.StepStart
}

func (r *run) end() schedule.Step {
	if r.untilSuccess {
		return schedule.StepDone
	}
	return schedule.StepFinish
}

// runStep runs a step once the server's clock has reached the due time, and reports whether the tick has already been
// run.
func (u *lockedRun) runStep(ctx context.Context, step schedule.Step) (ran bool, err error) {
	return ticks.Await(ctx, u.due, func() (time.Time, bool, error) {
		state, err := u.record(ctx, step)
		return state.At, state.Done, err
	})
}

// checkTick is the step before the lock, so that processes do not queue for a tick that has already been run.
func (u *lockedRun) checkTick(ctx context.Context) (ran bool, err error) {
	return u.runStep(ctx, schedule.StepLook)
}

func (u *lockedRun) record(ctx context.Context, step schedule.Step) (schedule.RunState, error) {
	const keep = 400 * 24 * time.Hour // more than a year, for @yearly
	state, err := schedule.StoreOf(u.locker).RecordRun(ctx, schedule.RunRequest{Job: u.key.String(), Due: u.due, Step: step, Keep: keep})
	if err != nil {
		return state, fmt.Errorf("tick %s of %q: %w", u.due.Format(time.RFC3339), u.key, err)
	}
	return state, nil
}

// alreadyRan says so with --verbose.
func (u *lockedRun) alreadyRan() {
	if u.verbose {
		say(os.Stderr, "%v", u.failed(fmt.Errorf("tick %s of %q has been run", u.due.Format(time.RFC3339), u.key)))
	}
}

// recordSuccess records that the command has succeeded, while the lock is held.
func (u *lockedRun) recordSuccess(ctx context.Context, lock heldLock, code int) error {
	if !u.ticks() || code != 0 || lock.Err() != nil {
		return nil
	}
	const within = time.Minute // leaves time to connect again
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if _, err := u.record(ctx, u.end()); err != nil {
		return u.failed(err)
	}
	return nil
}
