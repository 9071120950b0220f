package locktest

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
)

// What a Locker does itself is the same on every backend, so it is tried in memory alone.
func TestWhatALockerDoesOnEveryBackend(t *testing.T) {
	exercise(t, NewServer().opener(), map[string]func(*suite){
		"TheLocksContextEndsWithTheLock":       (*suite).lockContext,
		"DoReleasesWhateverHappens":            (*suite).do,
		"CloseEndsLocksWhenItsContextEnds":     (*suite).closeForced,
		"ACallThatWouldWaitForItselfIsRefused": (*suite).selfDeadlock,
		"ACallThatCanBeGrantedIsNotRefused":    (*suite).noSelfDeadlock,
		"MisuseIsAnError":                      (*suite).misuse,
	})
}

func (s *Server) opener() Opener {
	return func(t testing.TB, opts ...pglock.Option) *pglock.Locker {
		l, err := s.Locker(opts...)
		must.Succeed(t, err)
		t.Cleanup(func() { _ = l.Close(context.Background()) }) // some have been closed, and say so
		return l
	}
}

func (s *suite) lockContext() {
	l := s.open()
	lock := s.lock(l, s.key("k"))
	parent, cancel := context.WithCancelCause(s.Ctx)
	ctx, independent := lock.Context(parent), lock.Context(context.Background())
	child, cancelChild := context.WithCancel(independent)
	defer cancelChild()
	mine := errors.New("mine")
	cancel(mine)
	<-ctx.Done()
	if context.Cause(ctx) != mine || ctx.Err() != context.Canceled {
		s.Errorf("a parent's end: Err %v, cause %v", ctx.Err(), context.Cause(ctx))
	}
	if independent.Err() != nil || lock.Err() != nil {
		s.Errorf("a parent's end reached elsewhere: %v, %v", independent.Err(), lock.Err())
	}
	s.mustUnlock(lock)
	<-child.Done()
	for _, ended := range []context.Context{independent, child, lock.Context(context.Background())} {
		if !errors.Is(context.Cause(ended), pglock.ErrUnlocked) || ended.Err() != context.Canceled {
			s.Errorf("the lock's end: Err %v, cause %v", ended.Err(), context.Cause(ended))
		}
	}
}

func (s *suite) do() {
	l := s.open()
	key := s.key("k")
	mine := errors.New("mine")
	err := l.Do(s.Ctx, key, func(ctx context.Context, lock *pglock.Lock) error {
		err := l.TryDo(ctx, key, func(context.Context, *pglock.Lock) error { return errors.New("ran") })
		if !errors.Is(err, pglock.ErrNotAcquired) {
			s.Errorf("TryDo of a held key: got error %v, want one that matches %q", err, pglock.ErrNotAcquired)
		}
		return mine
	})
	if err != mine {
		s.Errorf("Do returned %v", err)
	}
	s.Must(l.TryDo(s.Ctx, key, func(ctx context.Context, lock *pglock.Lock) error { return lock.Unlock(ctx) }))

	func() {
		defer func() {
			if r := recover(); r != "boom" {
				s.Errorf("the panic came out as %v", r)
			}
		}()
		_ = l.Do(s.Ctx, key, func(context.Context, *pglock.Lock) error { panic("boom") })
	}()
	s.free(key)

	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_ = l.Do(s.Ctx, key, func(context.Context, *pglock.Lock) error { runtime.Goexit(); return nil })
	}()
	<-gone
	s.free(key)

	err = l.Do(s.Ctx, key, func(ctx context.Context, lock *pglock.Lock) error {
		<-ctx.Done()
		return mine
	}, pglock.MaxHold(10*time.Millisecond))
	if !errors.Is(err, pglock.ErrLost) || !errors.Is(err, mine) {
		s.Errorf("Do with a lost lock returned %v", err)
	}
	s.mustUnlock(s.lock(s.open(), key)) // MaxHold gives the lock back in the background
}

func (s *suite) closeForced() {
	l := s.open()
	key := s.key("k")
	hanging, diligent := s.lock(l, key), s.lock(l, s.key("diligent"))
	go func() {
		<-diligent.Done()
		_ = diligent.Unlock(s.Ctx)
	}()
	ctx, cancel := context.WithCancel(s.Ctx)
	cancel()
	if err := l.Close(ctx); !errors.Is(err, context.Canceled) {
		s.Errorf("Close that ended locks returned %v", err)
	}
	lost := (*pglock.LostError)(nil)
	if err := hanging.Err(); !errors.As(err, &lost) || lost.Reason != pglock.LostClosed {
		s.Errorf("a lock ended by Close: %v", err)
	}
	if err := hanging.Unlock(s.Ctx); !errors.Is(err, pglock.ErrLost) {
		s.Errorf("Unlock of a lock ended by Close: got error %v, want one that matches %q", err, pglock.ErrLost)
	}
	s.free(key, s.key("diligent"))
}

type detail struct{}

// selfDeadlock: a call fails at once if its context ends with the Lock that it would wait for.
func (s *suite) selfDeadlock() {
	l, sibling := s.open(), s.open()
	key, other := s.key("k"), s.key("other")
	for _, held := range [][]pglock.LockOption{nil, {pglock.Shared()}} {
		lock, second := s.lock(l, key, held...), s.lock(l, other)
		inner := lock.Context(s.Ctx)
		timed, cancel := context.WithTimeout(inner, time.Hour)
		defer cancel()
		caused, cancelCause := context.WithCancelCause(context.WithValue(timed, detail{}, 1))
		defer cancelCause(nil)
		for name, ctx := range map[string]context.Context{
			"the Lock's context":           inner,
			"one derived from it":          caused,
			"another Lock's, made from it": second.Context(caused),
			"one that ends with it alone":  lock.Context(context.Background()),
			"one with values":              lock.Context(context.WithValue(context.Background(), detail{}, 1)),
		} {
			_, err := l.Lock(ctx, key)
			s.wantError(err, pglock.ErrSelfDeadlock, "Lock of the key that is held, with "+name)
			if errors.Is(err, pglock.ErrNotAcquired) {
				s.Errorf("with %s: the error %v matches ErrNotAcquired, which is for locks that will be free", name, err)
			}
			_, err = l.LockAll(ctx, []pglock.Key{s.key("a"), key, s.key("z")}, pglock.MaxWait(time.Hour))
			s.wantError(err, pglock.ErrSelfDeadlock, "LockAll with the key that is held, with "+name)
			_, err = sibling.Lock(ctx, key)
			s.wantError(err, pglock.ErrSelfDeadlock, "another Locker's Lock of the key that is held, with "+name)
			_, err = l.TryLock(ctx, key)
			s.wantError(err, pglock.ErrNotAcquired, "TryLock of the key that is held, with "+name)
		}
		s.mustUnlock(second)
		s.mustUnlock(lock)
	}
	err := l.Do(s.Ctx, key, func(ctx context.Context, _ *pglock.Lock) error {
		return l.Do(ctx, key, func(context.Context, *pglock.Lock) error { return nil })
	})
	s.wantError(err, pglock.ErrSelfDeadlock, "Do in Do of one key")
	s.free(key, other, s.key("a"), s.key("z"))
}

// foreign is a context of another package, so the library cannot know when it ends.
type foreign struct{ context.Context }

// noSelfDeadlock: a call that could be granted waits.
func (s *suite) noSelfDeadlock() {
	l, another := s.open(), NewServer().opener()(s.T)
	key := s.key("k")
	lock := s.lock(l, key)
	inner := lock.Context(s.Ctx)
	const short = 30 * time.Millisecond
	s.mustUnlock(s.lock(another, key))
	_, err := l.Lock(foreign{inner}, key, pglock.MaxWait(short))
	s.wantError(err, pglock.ErrNotAcquired, "Lock under a context of another package")
	s.mustUnlock(s.lock(l, s.key("another"), pglock.MaxWait(time.Hour)))

	loose, cancel := context.WithTimeout(context.WithoutCancel(inner), time.Hour)
	defer cancel()
	waiter := s.start(loose, l, key) // outlives the Lock, so it is granted
	s.waiting(l, 1)
	s.mustUnlock(lock)
	s.mustUnlock(waiter.Got(s.Suite))

	lock = s.lock(l, key, pglock.Shared())
	inner = lock.Context(s.Ctx)
	both, err := l.Lock(inner, key, pglock.Shared())
	s.Must(err)
	s.mustUnlock(both)
	s.mustUnlock(lock)
	if _, err = l.Lock(inner, key); errors.Is(err, pglock.ErrSelfDeadlock) || err == nil {
		s.Errorf("Lock under the context of a Lock that has been unlocked: got %v, want the context's error", err)
	}
	again := s.lock(l, key)
	if _, err = l.Lock(inner, key); errors.Is(err, pglock.ErrSelfDeadlock) || err == nil {
		s.Errorf("Lock of a key that another Lock holds by now: got %v, want the context's error", err)
	}
	s.mustUnlock(again)
	s.free(key)
}

// wantError fails the test unless err matches want.
func (s *suite) wantError(err, want error, what string) {
	s.Helper()
	if !errors.Is(err, want) {
		s.Errorf("%s: got error %v, want one that matches %q", what, err, want)
	}
}

func (s *suite) misuse() {
	l := s.open()
	key := s.key("k")
	fail := func(what string, lock *pglock.Lock, err error) {
		s.Helper()
		if err == nil || lock != nil {
			s.Errorf("%s: no error", what)
		}
	}
	lock, err := l.Lock(s.Ctx, pglock.Key{})
	fail("the zero Key", lock, err)
	if !errors.Is(err, pglock.ErrInvalidKey) {
		s.Errorf("the zero Key: got error %v, want one that matches %q", err, pglock.ErrInvalidKey)
	}
	lock, err = l.TryLock(s.Ctx, pglock.NewKey(strings.Repeat("n", pglock.MaxName+1)))
	fail("a name that is too long", lock, err)
	if !errors.Is(err, pglock.ErrInvalidKey) {
		s.Errorf("a name that is too long: got error %v, want one that matches %q", err, pglock.ErrInvalidKey)
	}
	lock, err = l.LockAll(s.Ctx, []pglock.Key{key, {}})
	fail("a zero Key among others", lock, err)
	lock, err = l.LockAll(s.Ctx, nil)
	fail("no keys", lock, err)
	lock, err = l.TryLock(s.Ctx, key, pglock.MaxWait(time.Second))
	fail("TryLock with MaxWait", lock, err)
	lock, err = l.TryLock(s.Ctx, key, pglock.RetryUnavailable(time.Second))
	fail("TryLock with RetryUnavailable", lock, err)
	lock, err = l.Lock(s.Ctx, key, pglock.RetryUnavailable(0))
	fail("RetryUnavailable(0)", lock, err)
	lock, err = l.Lock(s.Ctx, key, pglock.MaxWait(-1))
	fail("a negative MaxWait", lock, err)
	lock, err = l.Lock(s.Ctx, key, pglock.MaxHold(0))
	fail("MaxHold(0)", lock, err)
	lock, err = l.Lock(s.Ctx, key, nil)
	fail("a nil option", lock, err)
	fail("Do without a function", nil, l.Do(s.Ctx, key, nil))
	fail("TryDo without a function", nil, l.TryDo(s.Ctx, key, nil))
	s.free(key)
}
