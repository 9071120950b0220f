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

// nightly shows what a lock does for a job that every process starts: it keeps runs from overlapping. Running the job
// once a night takes package schedule.
func (d *Demo) nightly(ctx context.Context) error {
	d.title("A nightly job")
	return errors.Join(d.overlap(ctx), d.repetition(ctx))
}

// overlap starts the job in all processes at the same time.
func (d *Demo) overlap(ctx context.Context) error {
	d.say("%d processes call locker.TryDo with the key %q at the same time:", processes, nightlyKey)
	return d.direct(ctx, processes, "nightly", func(workers []*worker) error {
		if err := together(workers); err != nil {
			return err
		}
		if err := d.quoteAll(workers); err != nil {
			return err
		}
		snapshot, err := d.showWhen(ctx, func(s *monitor.Snapshot) bool {
			lock, _ := s.Find(nightlyKey)
			return len(lock.Names) > 0 // is recorded in the background
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
func nightlyWorker(ctx context.Context, s stage) (err error) {
	locker, err := pglock.Open(ctx, s.url, pglock.WithNames())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, locker.Close(ctx)) }()
	if err := errors.Join(s.tell("ready"), s.await()); err != nil {
		return err
	}
	err = locker.TryDo(ctx, nightlyKey, func(ctx context.Context, lock *pglock.Lock) error {
		fence, err := lock.Fence(ctx)
		if err != nil {
			return err
		}
		return errors.Join(s.tell("runs the report, with fencing token %d", fence), s.await())
	})
	if !errors.Is(err, pglock.ErrNotAcquired) {
		return err
	}
	holders, err := locker.Holders(ctx, nightlyKey)
	if err != nil {
		return err
	}
	for _, holder := range holders {
		err = errors.Join(err, s.tell("does not: the lock is held by session %d, %s", holder.PID, holder.Application))
	}
	return err
}
