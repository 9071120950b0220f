package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
	_ "time/tzdata" // for machines and images without a database of time zones

	"github.com/spf13/cobra"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/cronspec"
	"github.com/pglock-toolkit/pglock/internal/runstore"
	"github.com/pglock-toolkit/pglock/pglock"
)

// tick is the value of the flag --tick: a cron expression or a period.
type tick struct {
	spec, cron string
	every      time.Duration
}

func (t *tick) String() string { return t.spec }
func (t *tick) Type() string   { return "@hourly" }

var namedTicks = map[string]string{
	"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0",
	"@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *",
}

func (t *tick) Set(spec string) error {
	if text, every := strings.CutPrefix(spec, "@every "); every {
		var period seconds
		if err := period.Set(strings.TrimSpace(text)); err != nil {
			return err
		}
		step := time.Duration(period).Truncate(time.Microsecond)
		if step < time.Second {
			return errors.New("a tick must be at least a second long")
		}
		*t = tick{spec: spec, every: step}
		return nil
	}
	expression, named := namedTicks[spec]
	if strings.HasPrefix(spec, "@") && !named {
		return errors.New("want @hourly, @daily, @weekly, @monthly, @yearly, @every and a duration, or a cron expression")
	}
	*t = tick{spec: spec, cron: cmp.Or(expression, spec)}
	_, err := cronspec.Parse(t.cron, time.UTC)
	return err
}

// last returns the last due time that is not after now.
func (t *tick) last(now time.Time, zone *time.Location) (time.Time, error) {
	if t.every > 0 {
		return now.UTC().Add(-time.Duration(now.UnixNano() % int64(t.every))), nil
	}
	spec, err := cronspec.Parse(t.cron, zone)
	if err != nil {
		return time.Time{}, err
	}
	due := spec.Last(now)
	if due.IsZero() {
		return due, errors.New("it was not due in the last five years")
	}
	return due, nil
}

// timeZone is the value of the flag --time-zone.
type timeZone struct{ *time.Location }

func (z *timeZone) String() string {
	if z.Location == nil {
		return ""
	}
	return z.Location.String()
}

func (z *timeZone) Type() string { return "ZONE" }

func (z *timeZone) Set(name string) error {
	zone, err := time.LoadLocation(name)
	if err != nil || name == "" || name == "Local" { // machines may have different local zones
		return errors.New("want the name of a time zone, such as Europe/Berlin or UTC")
	}
	z.Location = zone
	return nil
}

// checkTick refuses flags that contradict --tick.
func (r *run) checkTick(cmd *cobra.Command, key pglock.Key) error {
	switch {
	case r.tick.spec == "" && r.untilSuccess:
		return misuse(cmd, "--until-success needs --tick")
	case r.tick.spec == "" && r.jitter > 0:
		return misuse(cmd, "--jitter needs --tick")
	case r.tick.spec == "" && r.zone.Location != nil:
		return misuse(cmd, "--time-zone needs --tick")
	case r.tick.spec == "":
		return nil
	case r.tick.every > 0 && r.zone.Location != nil:
		return misuse(cmd, "--time-zone contradicts --tick %q, which is the same in every zone", r.tick.spec)
	case r.shared:
		return misuse(cmd, "--tick contradicts -s: runs of a tick exclude each other")
	case key.Name() == "":
		return misuse(cmd, "--tick needs a key that is a name, which %q is not", key)
	}
	due, err := r.tick.last(time.Now(), cmp.Or(r.zone.Location, time.UTC))
	if err != nil {
		return misuse(cmd, "--tick %q: %v", r.tick.spec, err)
	}
	r.due = due.Truncate(time.Microsecond)
	return nil
}

// ticks reports whether the command runs for a due time.
func (r *run) ticks() bool { return !r.due.IsZero() }

// begin is the step before the command.
func (r *run) begin() runstore.Step {
	if r.untilSuccess {
		return runstore.StepAttempt
	}
	return runstore.StepStart
}

// runStep runs a step once the server's clock has reached the due time, and reports whether the tick has already been
// run.
func (u *lockedRun) runStep(ctx context.Context, step runstore.Step) (ran bool, err error) {
	ran, err = runstore.Await(ctx, u.locker, u.request(step))
	return ran, u.inTick(err)
}

// checkTick is the step before the lock, so that processes do not queue for a tick that has already been run.
func (u *lockedRun) checkTick(ctx context.Context) (ran bool, err error) {
	return u.runStep(ctx, runstore.StepLook)
}

func (u *lockedRun) request(step runstore.Step) runstore.Request {
	const keep = 400 * 24 * time.Hour // more than a year, for @yearly
	return runstore.Request{Job: u.key.String(), Due: u.due, Step: step, Keep: keep}
}

// inTick adds to an error which tick it is about.
func (u *lockedRun) inTick(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("tick %s of %q: %w", u.due.Format(time.RFC3339), u.key, err)
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
	if _, err := runstore.Record(ctx, u.locker, u.request(runstore.StepDone)); err != nil {
		return u.failed(u.inTick(err))
	}
	return nil
}
