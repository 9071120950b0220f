// Package atlas lets programs that use Atlas as a library take their locks from pglock.
//
// Atlas's own driver for PostgreSQL takes a session lock on one of the program's connections. [NewLocker] takes a lock
// of a Locker instead, which is waited for without a snapshot, so that CREATE INDEX CONCURRENTLY does not wait for the
// processes that wait for the lock, and which is lost no later than its lease allows. [WithLocker] gives it to a
// driver.
//
// The atlas command takes no Locker. Run it under a lock: pglock run schema -- atlas migrate apply.
package atlas

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ariga.io/atlas/sql/migrate"
	"ariga.io/atlas/sql/schema"

	"github.com/pglock-toolkit/pglock/pglock"
)

// NewLocker returns a Locker whose locks are those of l with the names that Atlas gives them, each behind prefix. Its Lock
// waits for as long as its timeout says: a negative one has no bound, zero does not wait. An error for a lock that is held
// elsewhere matches schema.ErrLocked and [pglock.ErrNotAcquired]. The function that it returns releases the lock; its error
// matches [pglock.ErrLost] when the lock was lost before.
func NewLocker(l *pglock.Locker, prefix string) (schema.Locker, error) {
	if l == nil {
		return nil, errors.New("atlas: the Locker is nil")
	}
	return &locker{l, prefix}, nil
}

// WithLocker returns driver with the locks of l, as [NewLocker] makes them. Processes that use the driver alone are not
// excluded: change all of them.
func WithLocker(driver migrate.Driver, l *pglock.Locker, prefix string) (migrate.Driver, error) {
	if driver == nil {
		return nil, errors.New("atlas: the driver is nil")
	}
	locks, err := NewLocker(l, prefix)
	if err != nil {
		return nil, err
	}
	locked := &lockedDriver{driver, locks}
	if scanner, ok := driver.(migrate.StmtScanner); ok { // which Atlas asks a driver for
		return &scanningDriver{locked, scanner}, nil
	}
	return locked, nil
}

type scanningDriver struct {
	*lockedDriver
	migrate.StmtScanner
}

type lockedDriver struct {
	migrate.Driver
	locks schema.Locker
}

func (d *lockedDriver) Lock(ctx context.Context, name string, timeout time.Duration) (schema.UnlockFunc, error) {
	return d.locks.Lock(ctx, name, timeout)
}

type locker struct {
	locker *pglock.Locker
	prefix string
}

func (l *locker) Lock(ctx context.Context, name string, timeout time.Duration) (schema.UnlockFunc, error) {
	var opts []pglock.LockOption
	if timeout >= 0 {
		opts = append(opts, pglock.MaxWait(timeout))
	}
	lock, err := l.locker.Lock(ctx, pglock.NewKey(l.prefix+name), opts...)
	switch {
	case errors.Is(err, pglock.ErrNotAcquired) && ctx.Err() == nil:
		return nil, fmt.Errorf("atlas: %w: %w", schema.ErrLocked, err)
	case err != nil:
		return nil, fmt.Errorf("atlas: %w", err)
	}
	return func() error {
		if err := lock.Unlock(context.WithoutCancel(ctx)); err != nil {
			return fmt.Errorf("atlas: %w", err)
		}
		return nil
	}, nil
}
