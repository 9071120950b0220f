package demo

import (
	"context"
	"errors"
	"fmt"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/demo/locks"
	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
)

var nightlyKey = locks.NightlyReport()

// nightly shows that a lock keeps the runs of a job that every process starts from overlapping. To run the job only once
// a night takes package schedule.
func (d *Demo) nightly(ctx context.Context) error {
	d.title("A nightly job")
	return errors.Join(d.overlap(ctx), d.repetition(ctx))
}

// overlap starts the job in all processes at the same time.
func (d *Demo) overlap(ctx context.Context) error {
	d.say("%d processes call locker.TryDo with the key %q at the same time:", processes, nightlyKey)
	return d.direct(ctx, "nightly", func(workers []*worker) error {
		if err := startTogether(workers); err != nil {
			return err
		}
		if err := d.quoteAll(workers); err != nil {
			return err
		}
		snapshot, err := d.showWhen(ctx, func(s *monitor.Snapshot) bool {
			lock, _ := s.Find(nightlyKey)
			return len(lock.Names) > 0 // recorded in the background
		})
		if err != nil {
			return err
		}
		if lock, _ := snapshot.Find(nightlyKey); len(lock.Holders) != 1 {
			return fmt.Errorf("the report runs %d times", len(lock.Holders))
		}
		return nil
	})
}

// nightlyWorker holds the lock, if it gets it, until the last cue.
func nightlyWorker(ctx context.Context, s workerIO) (err error) {
	locker, err := pglock.Open(ctx, s.url, pglock.WithNames())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, locker.Close(ctx)) }()
	if err := errors.Join(s.printLine("ready"), s.waitForCue()); err != nil {
		return err
	}
	err = locker.TryDo(ctx, nightlyKey, func(ctx context.Context, lock *pglock.Lock) error {
		fence, err := lock.Fence(ctx)
		if err != nil {
			return err
		}
		return errors.Join(s.printLine("runs the report, with fencing token %d", fence), s.waitForCue())
	})
	if !errors.Is(err, pglock.ErrNotAcquired) {
		return err
	}
	holders, err := locker.Holders(ctx, nightlyKey)
	if err != nil {
		return err
	}
	for _, holder := range holders {
		err = errors.Join(err, s.printLine("does not: the lock is held by session %d, %s", holder.PID, holder.Application))
	}
	return err
}
