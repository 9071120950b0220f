// Package golangmigrate runs golang-migrate's migrations under a pglock lock.
//
// golang-migrate's drivers for PostgreSQL lock with SELECT pg_advisory_lock. A process that waits there holds a
// snapshot, and CREATE INDEX CONCURRENTLY waits for every snapshot: the process that migrates and the one that waits
// for it block each other (golang-migrate#960). The wait has no bound either, and it begins when the driver is opened.
//
// [Open] takes a lock of pglock first, which is waited for without a snapshot, under a context and a bound. Only then
// does it open the driver. golang-migrate's own lock is still taken, so processes that do not use this package are
// excluded too.
//
// If all processes that migrate use this package, CREATE INDEX CONCURRENTLY works. If some do not, they are still
// excluded, but such a migration may fail: PostgreSQL ends it, or the wait of the other process, as a deadlock.
package golangmigrate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/golang-migrate/migrate/v4/database"

	"github.com/pglock-toolkit/pglock/pglock"
)

// nativeWait bounds the wait for golang-migrate's own lock, which only processes that do not use this package can hold,
// and the opening of the inner driver, which takes that lock for a moment. It is below the LockTimeout of migrate.Migrate
// (15 s): a lock that arrives between the two is only freed by Close. Tests shorten it.
var nativeWait = 10 * time.Second

// Open takes the lock of key, opens golang-migrate's driver with open, and returns a driver for
// migrate.NewWithDatabaseInstance or migrate.NewWithInstance. The lock is held until Close. When Open returns an error
// no lock is held and the inner driver is closed.
//
// Options are those of [pglock.Locker.Lock], such as [pglock.MaxWait]. ctx and MaxWait bound the wait for the lock; a
// wait that they end is a *[pglock.WaitError]. ctx does not bound what happens afterwards: golang-migrate's own lock,
// which only processes that do not use this package can hold, is waited for 10 s at most. If the lock is lost later,
// Run, SetVersion and Drop refuse with an error that matches [pglock.ErrLost]; a statement that is running then is not
// interrupted.
//
// key must not be golang-migrate's own lock, which is a number below 2^32 that golang-migrate computes: such keys are
// refused with [pglock.ErrInvalidKey]. A key made from a name is fine.
//
// The returned driver is for one goroutine, as golang-migrate uses it.
func Open(ctx context.Context, locker *pglock.Locker, key pglock.Key, open func() (database.Driver, error), opts ...pglock.LockOption) (database.Driver, error) {
	if locker == nil || open == nil {
		return nil, errors.New("golangmigrate: the Locker or the function that opens the driver is nil")
	}
	if isNative(key) {
		return nil, fmt.Errorf("golangmigrate: %w: %s can be golang-migrate's own lock, which waits for itself "+
			"(use a key made from a name)", pglock.ErrInvalidKey, key)
	}
	lock, err := locker.Lock(ctx, key, opts...)
	if err != nil {
		return nil, fmt.Errorf("golangmigrate: %w", err)
	}
	inner, err := openWithin(open, nativeWait)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("golangmigrate: open the driver: %w", err), lock.Unlock(ctx))
	}
	return &driver{inner: inner, lock: lock}, nil
}

// isNative reports whether key can be a lock of golang-migrate: a bigint of 32 bits, as
// database.GenerateAdvisoryLockId returns it. The zero Key is not one.
func isNative(key pglock.Key) bool {
	_, _, pair := key.Pair()
	return !pair && key.Name() == "" && !key.Equal(pglock.Key{}) && key.Int64() >= 0 && key.Int64() <= math.MaxUint32
}

// openWithin returns an error if open takes longer than d. A driver that opens later is closed.
func openWithin(open func() (database.Driver, error), d time.Duration) (database.Driver, error) {
	type result struct {
		driver database.Driver
		err    error
	}
	opened := make(chan result, 1)
	go func() {
		driver, err := open()
		opened <- result{driver, err}
	}()
	select {
	case r := <-opened:
		if r.err == nil && r.driver == nil {
			return nil, errors.New("the function returned neither a driver nor an error")
		}
		return r.driver, r.err
	case <-time.After(d):
		go func() {
			if r := <-opened; r.err == nil && r.driver != nil {
				_ = r.driver.Close() // Open has already returned its error
			}
		}()
		return nil, fmt.Errorf("%w within %v: another process, which does not use this package, may hold golang-migrate's own lock",
			database.ErrLocked, d)
	}
}
