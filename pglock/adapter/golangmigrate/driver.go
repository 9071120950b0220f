package golangmigrate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/golang-migrate/migrate/v4/database"

	"github.com/pglock-toolkit/pglock/pglock"
)

// driver is golang-migrate's driver while a pglock lock is held.
type driver struct {
	inner database.Driver
	lock  *pglock.Lock

	mu      sync.Mutex
	pending chan struct{} // closed when an abandoned native Lock has ended; nil without one
}

// Open refuses: the driver is open already.
func (*driver) Open(string) (database.Driver, error) {
	return nil, errors.New("golangmigrate: the driver is open already; call golangmigrate.Open")
}

// Lock takes golang-migrate's own lock, within nativeWait. inner.Lock cannot be interrupted: after that it
// continues in the background, and a lock that it gets then is released at once. Until then Lock and Unlock return
// errors.
func (d *driver) Lock() error {
	if err := d.held("lock"); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.isPendingLocked() {
		return fmt.Errorf("golangmigrate: %w: an earlier wait for golang-migrate's own lock has not ended", database.ErrLocked)
	}
	locked := make(chan error, 1)
	go func() { locked <- d.inner.Lock() }()
	select {
	case err := <-locked:
		return err
	case <-time.After(nativeWait):
	}
	// If the lock was granted just as nativeWait ended, its result is in locked, and the goroutine releases the lock.
	pending := make(chan struct{})
	d.pending = pending
	go func() {
		defer close(pending)
		if err := <-locked; err == nil {
			_ = d.inner.Unlock() // if it fails, Close ends the session and the lock with it
		}
	}()
	return fmt.Errorf("golangmigrate: %w: a process that does not use this package holds golang-migrate's own lock, "+
		"still after %v", database.ErrLocked, nativeWait)
}

func (d *driver) isPendingLocked() bool {
	if d.pending == nil {
		return false
	}
	select {
	case <-d.pending:
		d.pending = nil
		return false
	default:
		return true
	}
}

// Unlock releases golang-migrate's own lock.
func (d *driver) Unlock() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.isPendingLocked() {
		return fmt.Errorf("golangmigrate: %w: the wait for it was abandoned", database.ErrNotLocked)
	}
	return d.inner.Unlock()
}

func (d *driver) Run(migration io.Reader) error {
	if err := d.held("run a migration"); err != nil {
		return err
	}
	return d.inner.Run(migration)
}

func (d *driver) SetVersion(version int, dirty bool) error {
	if err := d.held("set the version"); err != nil {
		return err
	}
	return d.inner.SetVersion(version, dirty)
}

func (d *driver) Drop() error {
	if err := d.held("drop everything"); err != nil {
		return err
	}
	return d.inner.Drop()
}

func (d *driver) Version() (version int, dirty bool, err error) { return d.inner.Version() }

// Close closes the inner driver and releases the lock. It does not wait for an abandoned native Lock: the inner driver
// is closed when that has ended.
func (d *driver) Close() error {
	d.mu.Lock()
	pending := d.pending
	isPending := d.isPendingLocked()
	d.mu.Unlock()
	if isPending {
		go func() {
			<-pending
			_ = d.inner.Close() // Close has already returned
		}()
		return d.lock.Unlock(context.Background())
	}
	return errors.Join(d.inner.Close(), d.lock.Unlock(context.Background()))
}

func (d *driver) held(attempt string) error {
	if err := d.lock.Err(); err != nil {
		return fmt.Errorf("golangmigrate: cannot %s: %w", attempt, err)
	}
	return nil
}
