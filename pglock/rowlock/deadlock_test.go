package rowlock_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/hooks"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
)

// Two Lockers of a process know that they are on one server, and two processes, one of which has locks of sessions too, see
// what the other one publishes.
func TestDeadlockOfTwoLockersEnds(t *testing.T) {
	t.Parallel()
	pool, _ := installed(t)
	for what, open := range map[string]func() *pglock.Locker{
		"one process":   func() *pglock.Locker { return open(t, pool) },
		"two processes": func() *pglock.Locker { l := open(t, pool); hooks.Process(l); return l },
	} {
		one, two := open(), open()
		t.Run(what, func(t *testing.T) { wantVictim(t, one, one, two, two) })
	}
	one, two := open(t, pool), open(t, pool)
	alsoOne, alsoTwo := sessions(t, pool), sessions(t, pool)
	hooks.Process(one, alsoOne)
	hooks.Process(two, alsoTwo)
	wantVictim(t, one, alsoOne, alsoTwo, two)
	wantVictimBehindWriter(t, one, two)
}

// wantVictimBehindWriter makes a writer of another process wait between two shared locks of one call.
func wantVictimBehindWriter(t *testing.T, one, two *pglock.Locker) {
	key, none := pglock.NewKey(t.Name()), func(context.Context, *pglock.Lock) error { return nil }
	lock, err := one.Lock(t.Context(), key, pglock.Shared())
	must.Succeed(t, err)
	writer := make(chan error)
	go func() { writer <- two.Do(t.Context(), key, none) }()
	for err == nil { // until the writer waits
		err = one.Do(lock.Context(t.Context()), key, none, pglock.Shared())
	}
	if other := errors.Join(lock.Unlock(t.Context()), <-writer); !errors.Is(err, pglock.ErrSelfDeadlock) || other != nil {
		t.Errorf("a shared lock under a shared lock, behind a writer of another process: %v; %v", err, other)
	}
}

// A call has not got what another one of its process holds, though that shares it. So two calls that wait behind a writer do not wait
// for each other.
func TestDeadlockCallsHoldOnlyWhatTheyHaveGot(t *testing.T) {
	t.Parallel()
	pool, _ := installed(t)
	key, shared := pglock.NewKey("k"), pglock.Shared()
	results := make(chan error, 4)
	lockers, read := []*pglock.Locker{open(t, pool), open(t, pool)}, []*pglock.Lock(nil)
	for _, l := range lockers {
		hooks.Process(l)
		lock, err := l.Lock(t.Context(), key, shared)
		must.Succeed(t, err)
		read = append(read, lock)
	}
	writer := open(t, pool)
	go func() {
		results <- writer.Do(t.Context(), key, func(context.Context, *pglock.Lock) error { return nil })
	}()
	for err := error(nil); err == nil; { // until the writer waits
		err = lockers[0].TryDo(t.Context(), key, func(context.Context, *pglock.Lock) error { return nil }, shared)
	}
	for i, l := range lockers {
		go func() {
			lock, err := l.LockAll(t.Context(), []pglock.Key{key, pglock.Keyf("other of %d", i)}, shared)
			if lock != nil {
				err = errors.Join(err, lock.Unlock(t.Context()))
			}
			results <- err
		}()
	}
	select {
	case err := <-results:
		results <- errors.Join(errors.New("a call has ended"), err)
	case <-time.After(4 * time.Second):
	}
	must.Succeed(t, errors.Join(read[0].Unlock(t.Context()), read[1].Unlock(t.Context())))
	must.Succeed(t, errors.Join(<-results, <-results, <-results))
}

func sessions(t *testing.T, pool *pgxpool.Pool) *pglock.Locker {
	l, err := pglock.New(pool)
	must.Succeed(t, err)
	t.Cleanup(func() { _ = l.Close(context.Background()) })
	return l
}

// wantVictim makes two calls wait for each other: one holds a lock of one and wants one of wants, and the other holds that and wants the first.
func wantVictim(t *testing.T, one, wants, two, back *pglock.Locker) {
	a, b := pglock.NewKey(t.Name()+" a"), pglock.NewKey(t.Name()+" b")
	var have sync.WaitGroup
	have.Add(2)
	call := func(l *pglock.Locker, key pglock.Key, other *pglock.Locker, next pglock.Key) <-chan error {
		ended := make(chan error, 1)
		go func() {
			ended <- l.Do(t.Context(), key, func(ctx context.Context, _ *pglock.Lock) error {
				have.Done()
				have.Wait()
				return other.Do(ctx, next, func(context.Context, *pglock.Lock) error { return nil })
			})
		}()
		return ended
	}
	first, second := call(one, a, wants, b), call(two, b, back, a)
	err, other := <-first, <-second
	if (err == nil) == (other == nil) || !errors.Is(errors.Join(err, other), pglock.ErrDeadlock) {
		t.Errorf("of two calls that wait for each other, one: %v, and the other: %v", err, other)
	}
}
