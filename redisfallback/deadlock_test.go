package redisfallback_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/pglock-toolkit/pglock/pglock"
)

// Two Lockers of a process know that they are on one server.
func TestDeadlockOfTwoLockersEnds(t *testing.T) {
	t.Parallel()
	server := servers(t, 1)
	ended := make(chan error, 2)
	var have sync.WaitGroup
	have.Add(2)
	for _, keys := range [][2]string{{"a", "b"}, {"b", "a"}} {
		l := open(t, newClients(t, server), nil)
		go func() {
			ended <- l.Do(t.Context(), pglock.NewKey(keys[0]), func(ctx context.Context, _ *pglock.Lock) error {
				have.Done()
				have.Wait()
				return l.Do(ctx, pglock.NewKey(keys[1]), func(context.Context, *pglock.Lock) error { return nil })
			})
		}()
	}
	one, other := <-ended, <-ended
	if (one == nil) == (other == nil) || !errors.Is(errors.Join(one, other), pglock.ErrDeadlock) {
		t.Errorf("of two calls that wait for each other, one: %v, and the other: %v", one, other)
	}
}
