// Package atlas lets programs that use Atlas as a library take their locks from pglock.
//
// Atlas's own driver for PostgreSQL takes a session lock on one of the program's connections. [NewLocker] takes a lock
// of a Locker instead. Processes wait for it without a snapshot, so CREATE INDEX CONCURRENTLY does not wait for them.
// If its holder falls silent, the lock ends after its lease at the latest. [WithLocker] makes a driver use these locks.
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

// NewLocker returns a Locker whose locks are those of l; their names are Atlas's, with prefix in front. Its Lock waits
// for as long as its timeout says: without a bound if it is negative, and not at all if it is zero. If the lock is held
// elsewhere, the error matches schema.ErrLocked and [pglock.ErrNotAcquired]. The function that Lock returns releases
// the lock; its error matches [pglock.ErrLost] if the lock was lost before.
func NewLocker(l *pglock.Locker, prefix string) (schema.Locker, error) {
	if l == nil {
		return nil, errors.New("atlas: the Locker is nil")
	}
	return &locker{l, prefix}, nil
}

// WithLocker returns driver with the locks of l, as [NewLocker] makes them. It does not exclude processes that use
// driver without it, so all processes must use it.
func WithLocker(driver migrate.Driver, l *pglock.Locker, prefix string) (migrate.Driver, error) {
	if driver == nil {
		return nil, errors.New("atlas: the driver is nil")
	}
	locks, err := NewLocker(l, prefix)
	if err != nil {
		return nil, err
	}
	locked := &lockedDriver{driver, locks}
	if scanner, ok := driver.(migrate.StmtScanner); ok { // Atlas checks whether a driver has it
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
