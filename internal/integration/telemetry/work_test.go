package telemetry

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/trace"

	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/leader"
	"github.com/pglock-toolkit/pglock/pglock/semaphore"
)

// worker does everything with locks for which there is a metric.
type worker struct {
	name          string
	pool          *pgxpool.Pool
	locker, small *pglock.Locker // small may hold one lock at a time
	observer      *pglock.Observer
	tracer        trace.Tracer
}

// work works until ctx ends, through outages of the server. Its result is an error that no outage explains.
func (w *worker) work(ctx context.Context) error {
	permits, err := semaphore.New(w.locker, pglock.NewKey("gateway"), 1)
	if err != nil {
		return err
	}
	jobs := []func(context.Context) error{
		w.pay, w.pay, w.payIfFree, w.payAtOnce, w.payInTransaction, w.holdUntilLost, w.holdTooMany,
		func(ctx context.Context) error {
			return permits.Do(ctx, func(context.Context, *semaphore.Permit) error { return busy() })
		},
		func(ctx context.Context) error {
			return leader.Run(ctx, w.locker, pglock.NewKey("mails"), func(context.Context, *pglock.Lock) error { return busy() })
		},
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var running sync.WaitGroup
	for _, job := range jobs {
		running.Go(func() {
			for ctx.Err() == nil {
				if err := job(ctx); err != nil && ctx.Err() == nil && !expected(err) {
					cancel(err)
				}
				_ = busy()
			}
		})
	}
	running.Wait()
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

// expected reports whether err is one of contention or of an outage.
func expected(err error) bool {
	for _, target := range []error{
		pglock.ErrNotAcquired, pglock.ErrUnavailable, pglock.ErrLost, pglock.ErrTooManyLocks, errOutage,
	} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// errOutage marks errors of the pool, which are pgx's own.
var errOutage = errors.New("the pool has no server")

// busy is how long the work itself takes.
func busy() error {
	time.Sleep(10 * time.Millisecond)
	return nil
}

var invoice = pglock.NewKey("invoice:42")

func (w *worker) pay(ctx context.Context) error {
	ctx, span := w.tracer.Start(ctx, "pay")
	defer span.End()
	return w.locker.Do(ctx, invoice, func(context.Context, *pglock.Lock) error { return busy() })
}

func (w *worker) payIfFree(ctx context.Context) error {
	return w.locker.TryDo(ctx, invoice, func(context.Context, *pglock.Lock) error { return busy() })
}

func (w *worker) payAtOnce(ctx context.Context) error {
	lock, err := w.locker.Lock(ctx, invoice, pglock.MaxWait(time.Millisecond))
	if err != nil {
		return err
	}
	return lock.Unlock(ctx)
}

func (w *worker) payInTransaction(ctx context.Context) error {
	var inside error
	err := pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) error {
		inside = pglock.LockTx(ctx, tx, pglock.NewKey("ledger"), pglock.WithObserver(w.observer))
		return inside
	})
	if err != nil && inside == nil || err != nil && !expected(inside) {
		return errors.Join(errOutage, err)
	}
	return err
}

func (w *worker) holdUntilLost(ctx context.Context) error {
	return w.locker.Do(ctx, pglock.NewKey("import:"+w.name), func(ctx context.Context, _ *pglock.Lock) error {
		<-ctx.Done()
		return nil
	})
}

func (w *worker) holdTooMany(ctx context.Context) error {
	return w.small.Do(ctx, pglock.NewKey("first:"+w.name), func(ctx context.Context, _ *pglock.Lock) error {
		return w.small.Do(ctx, pglock.NewKey("second:"+w.name), func(context.Context, *pglock.Lock) error {
			return errors.New("two locks are held, and one is allowed")
		})
	})
}
