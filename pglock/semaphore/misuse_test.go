package semaphore_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/internal/lockkeys"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/locktest"
	"github.com/pglock-toolkit/pglock/pglock/semaphore"
)

func inMemory(t *testing.T, n int) *semaphore.Semaphore {
	t.Helper()
	l, err := locktest.NewMemory()
	sem, err := semaphore.New(must.Closing(t, l, err), pglock.NewKey("s"), n)
	must.Succeed(t, err)
	return sem
}

func TestSemaphoreDoReleasesWhateverHappens(t *testing.T) {
	sem, mine := inMemory(t, 1), errors.New("mine")
	if err := sem.Do(t.Context(), func(context.Context, *semaphore.Permit) error { return mine }); err != mine {
		t.Errorf("Do returned %v", err)
	}
	if err := sem.Do(t.Context(), func(ctx context.Context, p *semaphore.Permit) error { return p.Release(ctx) }); err != nil {
		t.Errorf("Do of a function that releases: %v", err)
	}
	func() {
		defer func() {
			if r := recover(); r != "boom" {
				t.Errorf("the panic came out as %v", r)
			}
		}()
		_ = sem.Do(t.Context(), func(context.Context, *semaphore.Permit) error { panic("boom") })
	}()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_ = sem.Do(t.Context(), func(context.Context, *semaphore.Permit) error { runtime.Goexit(); return nil })
	}()
	<-gone
	err := sem.Do(t.Context(), func(ctx context.Context, p *semaphore.Permit) error {
		<-ctx.Done()
		return mine
	}, pglock.MaxHold(10*time.Millisecond))
	if !errors.Is(err, pglock.ErrLost) || !errors.Is(err, mine) {
		t.Errorf("Do with a lost permit returned %v", err)
	}
	p, err := sem.Acquire(t.Context())
	must.Succeed(t, err)
	if err := p.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestSemaphoreMisuseIsAnError(t *testing.T) {
	l, err := locktest.NewMemory()
	must.Closing(t, l, err)
	for name, test := range map[string]struct {
		l   *pglock.Locker
		key pglock.Key
		n   int
	}{
		"no permits":   {l, pglock.NewKey("s"), 0},
		"fewer":        {l, pglock.NewKey("s"), -1},
		"too many":     {l, pglock.NewKey("s"), lockkeys.MaxSlots + 1},
		"a nil Locker": {nil, pglock.NewKey("s"), 1},
		"the zero Key": {l, pglock.Key{}, 1},
	} {
		if _, err := semaphore.New(test.l, test.key, test.n); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	sem := inMemory(t, 3)
	for _, weight := range []int{0, -1, 4} {
		if _, err := sem.AcquireN(t.Context(), weight); err == nil {
			t.Errorf("the weight %d of 3 is accepted", weight)
		}
	}
	for name, opt := range map[string]pglock.LockOption{
		"Shared": pglock.Shared(), "nil": nil, "a negative MaxWait": pglock.MaxWait(-1),
	} {
		if _, err := sem.Acquire(t.Context(), opt); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if _, err := sem.TryAcquire(t.Context(), pglock.MaxWait(time.Second)); err == nil {
		t.Error("TryAcquire with MaxWait is accepted")
	}
	if err := sem.Do(t.Context(), nil); err == nil {
		t.Error("a nil function is accepted")
	}
	ended, cancel := context.WithCancelCause(t.Context())
	because := errors.New("because")
	cancel(because)
	_, err = sem.Acquire(ended)
	for _, want := range []error{pglock.ErrNotAcquired, context.Canceled, because} {
		if !errors.Is(err, want) {
			t.Errorf("Acquire with an ended context: %v, does not match %q", err, want)
		}
	}
}
