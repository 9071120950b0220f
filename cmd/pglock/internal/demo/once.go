package demo

import (
	"context"
	"errors"
	"time"

	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/schedule"
)

// repetition starts the job in one process after another, each when the previous one has finished: first with only a lock,
// and then for a due time.
func (d *Demo) repetition(ctx context.Context) error {
	return d.direct(ctx, "late", func(workers []*worker) error {
		for _, w := range workers {
			if _, err := w.readLine(); err != nil { // the line that says that it is ready
				return err
			}
		}
		d.print("")
		d.say("A lock keeps runs from overlapping, but not from repeating. If the clocks of the %d processes differ by more than "+
			"the job takes, each process finds the lock free:", processes)
		if err := d.inTurn(workers); err != nil {
			return err
		}
		d.print("")
		d.say("So package schedule records each run with its due time, while the job holds its lock. Again one process after " +
			"another, with jobs.Run and last midnight as the due time:")
		return d.inTurn(workers)
	})
}

// inTurn cues one worker after another, and prints their answers.
func (d *Demo) inTurn(workers []*worker) error {
	for _, w := range workers {
		if err := w.cue(); err != nil {
			return err
		}
		line, err := w.readLine()
		if err != nil {
			return err
		}
		d.print("  process %d %s", w.cmd.Process.Pid, line)
	}
	return nil
}

// lateWorker does a short job at each cue: under a lock, and for a due time.
func lateWorker(ctx context.Context, s workerIO) (err error) {
	locker, err := pglock.Open(ctx, s.url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, locker.Close(ctx)) }()
	job, err := schedule.New(locker, nightlyKey)
	if err != nil {
		return err
	}
	if err := errors.Join(s.printLine("ready"), s.waitForCue()); err != nil {
		return err
	}
	err = locker.TryDo(ctx, nightlyKey, func(context.Context, *pglock.Lock) error { return nil })
	if err := errors.Join(err, s.printLine("finds the lock free, and runs the job again"), s.waitForCue()); err != nil {
		return err
	}
	due := time.Now().UTC().Truncate(24 * time.Hour)
	err = job.Run(ctx, due, func(context.Context, *pglock.Lock) error { return nil })
	switch {
	case errors.Is(err, pglock.ErrDone):
		return errors.Join(s.printLine("does not: the run due %s is done", due.Format(time.DateTime)), s.waitForCue())
	case err != nil:
		return err
	}
	return errors.Join(s.printLine("runs the job, due %s", due.Format(time.DateTime)), s.waitForCue())
}
