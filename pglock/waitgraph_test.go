package pglock

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// busy is a server that has granted all locks to others, and ends the first wait with an error when it is told to.
type busy struct {
	driver.Backend
	waits chan error
}

func (busy) Start(driver.Config) error { return nil }
func (b busy) Acquire(_ context.Context, r driver.Request) (driver.Grant, error) {
	if err, first := <-b.waits; r.Wait && first {
		return nil, err
	}
	return nil, driver.ErrNotAcquired
}

// A call that gives its turn away waits no more. The next one would find that its own turn is kept by it.
func TestDeadlockTheNextInLineIsNoVictimOfTheCallBefore(t *testing.T) {
	done := make(chan struct{})
	close(done)
	for _, end := range []error{driver.ErrNotAcquired, &driver.UnsettledError{Err: driver.ErrUnavailable, Done: done}} {
		synctest.Test(t, func(t *testing.T) {
			b := busy{waits: make(chan error)}
			l, err := NewWithBackend(b)
			if err != nil {
				t.Fatal(err)
			}
			ends := make(chan error)
			for range 2 {
				go func() {
					_, err := l.Lock(t.Context(), NewKey("k"))
					ends <- err
				}()
				synctest.Wait()
			}
			b.waits <- nil // the first call tries,
			b.waits <- end // and waits
			close(b.waits)
			if first, second := <-ends, <-ends; errors.Is(errors.Join(first, second), ErrDeadlock) || !errors.Is(second, ErrNotAcquired) {
				t.Errorf("the calls end with %v and %v", first, second)
			}
		})
	}
}
