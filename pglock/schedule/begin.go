package schedule

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pglock-toolkit/pglock/internal/lockkeys"
	"github.com/pglock-toolkit/pglock/internal/shorttext"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/internal/mark"
)

// Begun is a run that [Jobs.Begin] began.
type Begun struct {
	lock *pglock.Lock
	mark mark.Mark
}

// Begin is for schedulers that ask before a run and say when it has ended, and do not know the time for which it is
// due. Where that time is known, use [Jobs.Run].
//
// Begin takes the lock of the job's name, without waiting: the error matches [pglock.ErrNotAcquired] if another run is
// in progress. Then it counts the run for the interval that the server's clock is in; the error matches [ErrAlreadyRan]
// if that interval has had its run. Intervals are centred on the multiples of interval since 1970, so that runs that
// are due at a multiple count for the same interval in all processes, although their clocks differ. interval is cut to
// whole microseconds and must be at least a second. With interval 0 nothing is recorded, and Begin only prevents runs
// from overlapping, which needs no schema pglock.
//
// A run counts when it begins, as with MarkOn([Start]); of the options only [Keep] applies. The run ends by [Begun.End],
// or when its lock is lost, which Begin's caller is not told.
func (j *Jobs) Begin(ctx context.Context, name string, interval time.Duration) (*Begun, error) {
	begun, err := j.begin(ctx, name, interval)
	if err != nil {
		return nil, fmt.Errorf("pglock/schedule: %s every %v: %w", shorttext.Quote(name), interval, err)
	}
	return begun, nil
}

func (j *Jobs) begin(ctx context.Context, name string, interval time.Duration) (*Begun, error) {
	if interval != 0 && interval < time.Second {
		return nil, errors.New("the interval must be at least a second")
	}
	if err := check(name, epoch); err != nil {
		return nil, err
	}
	key := pglock.NewKey(name)
	lock, err := j.locker.TryLock(ctx, key, pglock.WithUse(pglock.Use{Kind: pglock.UseTick, Key: key}))
	if err != nil {
		return nil, err
	}
	if interval > 0 {
		if err := j.count(ctx, name, interval); err != nil {
			return nil, errors.Join(err, lock.Unlock(ctx))
		}
	}
	return &Begun{lock, mark.Take(ctx, j.locker, lockkeys.TickMark, pglock.Use{Kind: pglock.UseTickMark, Key: key})}, nil
}

var epoch = time.Unix(0, 0).UTC()

// count records a run for the interval that the server's clock is in.
func (j *Jobs) count(ctx context.Context, name string, interval time.Duration) error {
	now, err := j.store.RecordRun(ctx, RunRequest{Job: name, Due: epoch, Step: StepLook})
	if err != nil {
		return err
	}
	step := interval.Microseconds()
	due := time.UnixMicro(now.At.UnixMicro() - (now.At.UnixMicro()+step/2)%step).UTC()
	state, err := j.store.RecordRun(ctx, RunRequest{
		Job: name, Due: due, Step: StepStart, Keep: max(j.config.keep, 2*interval),
	})
	if err == nil && state.Done {
		return fmt.Errorf("%w in the interval since %s", ErrAlreadyRan, due.Format(time.RFC3339))
	}
	return err
}

// End ends the run. The error is that of [pglock.Lock.Unlock].
func (b *Begun) End(ctx context.Context) error {
	defer b.mark.Unlock(ctx)
	return b.lock.Unlock(ctx)
}
