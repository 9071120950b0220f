// Package patterns shows common uses of distributed locks, end to end: a counter, a transfer between two accounts, a
// list of running jobs, a job that outlives its lease, and a service that refuses stale writers. All of them take a
// [pglock.Locker], so they run on PostgreSQL and on Redis unchanged; the tests do both. Their keys are generated from
// locks.sql.
package patterns

import (
	"context"
	"errors"
	"fmt"

	"github.com/pglock-toolkit/pglock/examples/patterns/locks"
	"github.com/pglock-toolkit/pglock/pglock"
)

//go:generate pglockdev generate locks.sql

// Store holds the numbers. Get and Set are not atomic together, so callers need the lock.
type Store interface {
	Get(ctx context.Context, name string) (int64, error)
	Set(ctx context.Context, name string, value int64) error
}

// Increment adds 1 to a number that many processes add to. Without the lock two of them read the same value, and one
// update is lost.
func Increment(ctx context.Context, l *pglock.Locker, store Store, name string) error {
	return l.Do(ctx, locks.Counter(name), func(ctx context.Context, _ *pglock.Lock) error {
		n, err := store.Get(ctx, name)
		if err != nil {
			return err
		}
		return store.Set(ctx, name, n+1)
	})
}

// ErrFunds is the refusal of a transfer.
var ErrFunds = errors.New("not enough money")

// Transfer moves money between two accounts. It needs both locks: LockAll takes them in a fixed order, so that
// transfers in opposite directions cannot wait for each other.
func Transfer(ctx context.Context, l *pglock.Locker, store Store, from, to string, amount int64) (err error) {
	lock, err := l.LockAll(ctx, []pglock.Key{locks.Account(from), locks.Account(to)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Unlock(ctx)) }()
	ctx = lock.Context(ctx)
	source, err := store.Get(ctx, from)
	if err != nil {
		return err
	}
	target, err := store.Get(ctx, to)
	if err != nil {
		return err
	}
	if source < amount {
		return fmt.Errorf("%w: %s has %d of %d", ErrFunds, from, source, amount)
	}
	return errors.Join(store.Set(ctx, from, source-amount), store.Set(ctx, to, target+amount))
}

// Status reports which jobs are running now, in any process: those whose lock is held. It takes no lock.
func Status(ctx context.Context, l *pglock.Locker, jobs ...string) (map[string]bool, error) {
	atWork := map[string]bool{}
	for _, job := range jobs {
		holders, err := l.Holders(ctx, locks.Job(job))
		if err != nil {
			return nil, err
		}
		atWork[job] = len(holders) > 0
	}
	return atWork, nil
}

// Work runs a job under its lock, however long it takes. With other libraries such a job needs a loop that extends the
// lock in time. Here the Locker renews its lease for as long as the process lives and the server answers; if that
// fails, the job's context ends before another process can get the lock. [pglock.MaxHold] and [pglock.Lock.Extend] are
// for the opposite: a job that hangs loses its lock.
func Work(ctx context.Context, l *pglock.Locker, job string, run func(context.Context) error) error {
	return l.Do(ctx, locks.Job(job), func(ctx context.Context, _ *pglock.Lock) error { return run(ctx) })
}
