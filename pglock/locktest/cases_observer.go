package locktest

import (
	"context"
	"time"

	"github.com/pglock-toolkit/pglock/pglock"
)

func (s *suite) deadline() {
	l := s.open()
	lock := s.lock(l, s.key("k"))
	before, ok := lock.Deadline()
	if ok && !before.After(time.Now()) { // false: this backend has no lease
		s.Errorf("the deadline of a lock that is held is %v", before)
	}
	if left, ok := lock.MaxHoldLeft(); ok {
		s.Errorf("without MaxHold, %v of it are left", left)
	}
	s.must(lock.Extend(time.Hour))
	if after, ok := lock.Deadline(); !ok || after.After(time.Now().Add(time.Hour)) || !after.After(time.Now()) {
		s.Errorf("with an hour of MaxHold the deadline is %v, %v", after, ok)
	}
	left, ok := lock.MaxHoldLeft()
	if !ok || left > time.Hour || left < time.Minute {
		s.Errorf("of an hour of MaxHold %v are left, %v", left, ok)
	}
	s.must(lock.Extend(left + time.Hour)) // which adds an hour, whatever the lease
	if sum, ok := lock.MaxHoldLeft(); !ok || sum <= time.Hour || sum > 2*time.Hour {
		s.Errorf("with another hour, %v of MaxHold are left, %v", sum, ok)
	}
	s.must(lock.Extend(100 * time.Millisecond))
	if after, ok := lock.Deadline(); !ok || after.After(time.Now().Add(100*time.Millisecond)) {
		s.Errorf("with 100 ms of MaxHold the deadline is %v, %v", after, ok)
	}
	<-lock.Done()
	if after, ok := lock.Deadline(); !ok || !after.IsZero() {
		s.Errorf("the deadline of a lock that has ended is %v, %v", after, ok)
	}
	if left, ok := lock.MaxHoldLeft(); !ok || left != 0 {
		s.Errorf("a lock that has ended has %v of MaxHold left, %v", left, ok)
	}
}

// observerPanics makes each function of an Observer panic, for locks that wait in this process and on the server.
func (s *suite) observerPanics() {
	boom := func() { panic("boom") }
	for name, observer := range map[string]*pglock.Observer{
		"WaitStarted": {WaitStarted: func(context.Context, pglock.WaitStartedInfo) context.Context { panic("boom") }},
		"WaitEnded":   {WaitEnded: func(context.Context, pglock.WaitEndedInfo) { boom() }},
		"Acquired":    {Acquired: func(context.Context, pglock.AcquiredInfo) context.Context { panic("boom") }},
		"Released":    {Released: func(context.Context, pglock.ReleasedInfo) { boom() }},
	} {
		for where, elsewhere := range map[string]bool{"this process": false, "another process": true} {
			key := s.key(name + " " + where)
			quiet := s.open()
			l := s.open(pglock.WithObserver(observer))
			if !elsewhere {
				quiet = l
			}
			holder := s.quietly(func() *pglock.Lock { return s.lock(quiet, key) })
			if holder == nil {
				holder = s.lock(s.open(), key) // l's Acquired has panicked
			}
			waited := make(chan struct{})
			go func() {
				defer close(waited)
				s.quietly(func() *pglock.Lock {
					ctx, cancel := context.WithTimeout(s.ctx, 50*time.Millisecond)
					defer cancel()
					lock, err := l.Lock(ctx, key)
					if err == nil {
						s.Errorf("%s: a held lock was acquired", name)
					}
					return lock
				})
			}()
			<-waited
			s.quietly(func() *pglock.Lock { _ = holder.Unlock(s.ctx); return nil })
			s.quietly(func() *pglock.Lock { // takes and releases the free lock
				lock, err := l.Lock(s.ctx, key)
				if err != nil {
					s.Errorf("%s, held by %s: %v", name, where, err)
					return nil
				}
				return s.quietly(func() *pglock.Lock { _ = lock.Unlock(s.ctx); return nil })
			})
			s.mustUnlock(s.lock(s.open(), key))
			if stats := l.Stats(); stats.Held != 0 || stats.Waiting != 0 {
				s.Errorf("%s, held by %s: %+v", name, where, stats)
			}
		}
	}
}

// quietly recovers from the panics of the Observer.
func (s *suite) quietly(f func() *pglock.Lock) *pglock.Lock {
	defer func() {
		if r := recover(); r != nil && r != "boom" {
			panic(r)
		}
	}()
	return f()
}
