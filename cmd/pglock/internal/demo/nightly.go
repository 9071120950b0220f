package demo

import (
	"context"
	"errors"
	"fmt"

	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
)

// nightly shows a job of which one instance runs, however many are started.
func (d *Demo) nightly(ctx context.Context) error {
	d.title("A nightly job that runs once")
	d.say(`%d processes call locker.TryLock(ctx, pglock.NewKey("nightly-report")) at the same time:`, processes)
	return d.direct(ctx, processes, "nightly", func(workers []*worker) error {
		if err := together(workers); err != nil {
			return err
		}
		if err := d.quoteAll(workers); err != nil {
			return err
		}
		snapshot, err := monitor.Take(ctx, d.pool)
		if err != nil {
			return err
		}
		d.show(snapshot)
		if lock, held := snapshot.Find(pglock.NewKey("nightly-report")); !held || len(lock.Holders) != 1 {
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
	key := pglock.NewKey("nightly-report")
	err = locker.TryDo(ctx, key, func(ctx context.Context, lock *pglock.Lock) error {
		fence, err := lock.Fence(ctx)
		if err != nil {
			return err
		}
		return errors.Join(s.tell("runs the report, with fencing token %d", fence), s.await())
	})
	if !errors.Is(err, pglock.ErrNotAcquired) {
		return err
	}
	holders, err := locker.Holders(ctx, key)
	if err != nil {
		return err
	}
	for _, holder := range holders {
		err = errors.Join(err, s.tell("does not: the lock is held by session %d, %s", holder.PID, holder.Application))
	}
	return err
}
