package rowlock_test

import (
	"errors"
	"testing"

	"github.com/pglock-toolkit/pglock/pglock"
)

// Two Lockers of a process know that they are on one server.
func TestDeadlockOfTwoLockersEnds(t *testing.T) {
	t.Parallel()
	pool, _ := installed(t)
	one, two := open(t, pool), open(t, pool)
	a, b := pglock.NewKey(t.Name()+" a"), pglock.NewKey(t.Name()+" b")
	first, err := one.Lock(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	second, err := two.Lock(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() {
		lock, err := one.Lock(first.Context(t.Context()), b)
		err = errors.Join(err, first.Unlock(t.Context()))
		if lock != nil {
			err = errors.Join(err, lock.Unlock(t.Context()))
		}
		ended <- err
	}()
	lock, err := two.Lock(second.Context(t.Context()), a)
	released := second.Unlock(t.Context())
	if lock != nil {
		released = errors.Join(released, lock.Unlock(t.Context()))
	}
	other := <-ended
	if released != nil || errors.Is(err, pglock.ErrDeadlock) == errors.Is(other, pglock.ErrDeadlock) {
		t.Errorf("of two calls that wait for each other, one: %v, and the other: %v; %v", err, other, released)
	}
}
