package schedule

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pglock-toolkit/pglock/internal/hooks"
	"github.com/pglock-toolkit/pglock/internal/lockkeys"
	"github.com/pglock-toolkit/pglock/internal/shorttext"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/internal/mark"
)

// Begun is a run that [Job.Begin] began.
type Begun struct {
	lock *pglock.Lock
	mark mark.Mark
}

// Begin is for schedulers that ask before a run and say when it has ended, and do not know the time for which it is
// due. Where that time is known, use [Job.Run].
//
// Begin takes the job's lock, without waiting: the error matches [pglock.ErrNotAcquired] if another run is
// in progress. Then it counts the run for the interval that the server's clock is in; the error matches [pglock.ErrDone]
// if that interval has had its run. Intervals are centred on the multiples of interval since 1970, so that runs that
// are due at a multiple count for the same interval in all processes, although their clocks differ. interval is cut to
// whole microseconds and must be at least a second. With interval 0 nothing is recorded, and Begin only prevents runs
// from overlapping, which needs no schema pglock.
//
// A run counts when it begins, as with MarkOn([Start]); of the options only [Keep] applies. The run ends by [Begun.End],
// or when its lock is lost, which Begin's caller is not told.
func (j *Job) Begin(ctx context.Context, interval time.Duration) (*Begun, error) {
	begun, err := j.begin(ctx, interval)
	if err != nil {
		return nil, fmt.Errorf("pglock/schedule: %s every %v: %w", shorttext.Quote(j.name), interval, err)
	}
	return begun, nil
}

func (j *Job) begin(ctx context.Context, interval time.Duration) (*Begun, error) {
	if interval != 0 && interval < time.Second {
		return nil, errors.New("the interval must be at least a second")
	}
	lock, err := j.locker.TryLock(ctx, j.key, hooks.WithUse(j.use()).(pglock.LockOption))
	if err != nil {
		return nil, err
	}
	if interval > 0 {
		if err := j.count(ctx, interval); err != nil {
			return nil, errors.Join(err, lock.Unlock(ctx))
		}
	}
	return &Begun{lock, mark.Take(ctx, j.locker, lockkeys.TickMark, pglock.Use{Kind: hooks.UseTickMark, Key: j.key})}, nil
}

var epoch = time.Unix(0, 0).UTC()

// count records a run for the interval that the server's clock is in.
func (j *Job) count(ctx context.Context, interval time.Duration) error {
	now, err := j.store.RecordRun(ctx, RunRequest{Job: j.name, Due: epoch, Step: StepLook})
	if err != nil {
		return err
	}
	step := interval.Microseconds()
	due := time.UnixMicro(now.At.UnixMicro() - (now.At.UnixMicro()+step/2)%step).UTC()
	state, err := j.store.RecordRun(ctx, RunRequest{
		Job: j.name, Due: due, Step: StepStart, Keep: max(j.config.keep, 2*interval),
	})
	if err == nil && state.Done {
		return fmt.Errorf("%w in the interval since %s", pglock.ErrDone, due.Format(time.RFC3339))
	}
	return err
}

// End ends the run. The error is that of [pglock.Lock.Unlock].
func (b *Begun) End(ctx context.Context) error {
	defer b.mark.Unlock(ctx)
	return b.lock.Unlock(ctx)
}
