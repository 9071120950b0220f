package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/demo/demodb"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/demo/locks"
	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
)

var deployKey = locks.Deploy("production")

// queue shows waiters in the server's queue, and a lock that outlives a transaction.
func (d *Demo) queue(ctx context.Context) (err error) {
	d.title("A queue")
	locker, err := pglock.Open(ctx, d.url("demo"), pglock.WithNames())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, locker.Close(ctx)) }()
	d.say("This process holds %q, and %d others wait for it in locker.Lock. A deployment takes more than one transaction: "+
		"it reads a number in one, and writes the next in another.", deployKey, processes)
	err = locker.Do(ctx, deployKey, func(_ context.Context, lock *pglock.Lock) error {
		//pglock:allow it goes on after the lock
		return d.direct(ctx, "deploy", func(workers []*worker) error {
			//pglock:allow as above
			if _, err := d.showWhen(ctx, allWait); err != nil {
				return err
			}
			d.print("")
			d.say("It unlocks. They deploy one after another, first come, first served:")
			return errors.Join(lock.Unlock(ctx), d.quoteAll(workers))
		})
	})
	if err != nil {
		return err
	}
	return d.countDeployments(ctx)
}

// allWait reports whether the queue is complete and its first waiter has waited for a while.
func allWait(s *monitor.Snapshot) bool {
	lock, _ := s.Find(deployKey)
	if len(lock.Waiters) < processes || len(lock.Names) == 0 {
		return false
	}
	since := lock.Waiters[0].WaitingSince
	return since == nil || s.TakenAt.Sub(*since) > time.Second
}

func (d *Demo) countDeployments(ctx context.Context) error {
	number, err := demodb.New(d.pool).Deployment(ctx)
	if err != nil {
		return err
	}
	if number != processes {
		return fmt.Errorf("%d processes have deployed %d times", processes, number)
	}
	return nil
}

// deployWorker waits for its turn to deploy.
func deployWorker(ctx context.Context, s workerIO) (err error) {
	pool, err := pgxpool.New(ctx, s.url)
	if err != nil {
		return err
	}
	defer pool.Close()
	locker, err := pglock.New(pool, pglock.WithNames())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, locker.Close(ctx)) }()
	return locker.Do(ctx, deployKey, func(ctx context.Context, _ *pglock.Lock) error {
		number, err := demodb.New(pool).Deployment(ctx)
		if err != nil {
			return err
		}
		time.Sleep(50 * time.Millisecond)
		if err := demodb.New(pool).SetDeployment(ctx, number+1); err != nil {
			return err
		}
		return s.printLine("makes deployment %d", number+1)
	})
}
