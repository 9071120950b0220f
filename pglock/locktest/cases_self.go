//pglock:allow these are tests: many locks are to be refused, or end with their Locker

package locktest

import (
	"context"
	"errors"
	"time"

	"github.com/pglock-toolkit/pglock/pglock"
)

type detail struct{}

// selfDeadlock: a call fails at once if its context ends with the Lock that it would wait for.
func (s *suite) selfDeadlock() {
	l := s.open()
	key, other := s.key("k"), s.key("other")
	for _, held := range [][]pglock.LockOption{nil, {pglock.Shared()}} {
		lock, second := s.lock(l, key, held...), s.lock(l, other)
		inner := lock.Context(s.ctx)
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
			_, err = l.TryLock(ctx, key)
			s.wantError(err, pglock.ErrNotAcquired, "TryLock of the key that is held, with "+name)
		}
		s.mustUnlock(second)
		s.mustUnlock(lock)
	}
	err := l.Do(s.ctx, key, func(ctx context.Context, _ *pglock.Lock) error {
		return l.Do(ctx, key, func(context.Context, *pglock.Lock) error { return nil })
	})
	s.wantError(err, pglock.ErrSelfDeadlock, "Do in Do of one key")
	s.free(key, other, s.key("a"), s.key("z"))
}

// foreign is a context of another package, so the library cannot know when it ends.
type foreign struct{ context.Context }

// noSelfDeadlock: a call that could be granted waits.
func (s *suite) noSelfDeadlock() {
	l, another := s.open(), s.open()
	key := s.key("k")
	lock := s.lock(l, key)
	inner := lock.Context(s.ctx)
	s.must(another.Ping(s.ctx)) // what follows bounds waits, not connecting
	const short = 30 * time.Millisecond
	_, err := another.Lock(inner, key, pglock.MaxWait(short))
	s.wantError(err, pglock.ErrNotAcquired, "another Locker's Lock under the Lock's context")
	_, err = l.Lock(foreign{inner}, key, pglock.MaxWait(short))
	s.wantError(err, pglock.ErrNotAcquired, "Lock under a context of another package")
	s.mustUnlock(s.lock(l, s.key("another"), pglock.MaxWait(time.Hour)))

	loose, cancel := context.WithTimeout(context.WithoutCancel(inner), time.Hour)
	defer cancel()
	waiter := s.start(loose, l, key) // outlives the Lock, so it is granted
	s.waiting(l, 1)
	s.mustUnlock(lock)
	s.mustUnlock(s.got(waiter))

	lock = s.lock(l, key, pglock.Shared())
	inner = lock.Context(s.ctx)
	both, err := l.Lock(inner, key, pglock.Shared())
	s.must(err)
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
