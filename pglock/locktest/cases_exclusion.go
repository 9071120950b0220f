package locktest

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pglock-toolkit/pglock/pglock"
)

// mutualExclusion: the state under the lock is not atomic, so the race detector finds overlaps too. Every other call may be
// cancelled at any moment, so also while it is granted.
func (s *suite) mutualExclusion() {
	lockers := []*pglock.Locker{s.open(), s.open(), s.open()}
	key, second := s.key("k"), s.key("second")
	const workers, rounds = 12, 60
	var writers, readers, want atomic.Int32
	total := int32(0)
	write := func() {
		if n, m := writers.Add(1), readers.Load(); n != 1 || m != 0 {
			s.Errorf("%d writers and %d readers hold the lock at the same time", n, m)
		}
		total++
		want.Add(1)
		runtime.Gosched()
		writers.Add(-1)
	}
	read := func() {
		readers.Add(1)
		if n := writers.Load(); n != 0 {
			s.Errorf("a reader and %d writers hold the lock at the same time", n)
		}
		runtime.Gosched()
		_ = total
		readers.Add(-1)
	}
	var wg sync.WaitGroup
	enough := time.Now().Add(patience / 6) // on a machine that is slow
	for i := range workers {
		l := lockers[i%len(lockers)]
		wg.Go(func() {
			for round := 0; round < rounds && time.Now().Before(enough); round++ {
				ctx, cancel := s.Ctx, func() {}
				if round%2 == 0 {
					ctx, cancel = context.WithTimeout(s.Ctx, rand.N(3*time.Millisecond))
				}
				switch rand.IntN(4) {
				case 0:
					s.inside(read, func() (*pglock.Lock, error) { return l.Lock(ctx, key, pglock.Shared()) })
				case 1: // in any order, so that calls that took their keys as they are given would deadlock
					both := []pglock.Key{key, second}
					rand.Shuffle(2, func(i, j int) { both[i], both[j] = both[j], both[i] })
					s.inside(write, func() (*pglock.Lock, error) { return l.LockAll(ctx, both) })
				default:
					s.inside(write, func() (*pglock.Lock, error) { return l.Lock(ctx, key) })
				}
				cancel()
			}
		})
	}
	wg.Wait()
	if total != want.Load() {
		s.Errorf("the counter is at %d, want %d", total, want.Load())
	}
	for _, l := range lockers {
		if stats := l.Stats(); stats.Held != 0 || stats.Waiting != 0 {
			s.Errorf("at the end: %+v", stats)
		}
	}
	s.free(key, second)
}

// inside works under the lock, unless the wait for it was cancelled.
func (s *suite) inside(work func(), acquire func() (*pglock.Lock, error)) {
	lock, err := acquire()
	if err == nil {
		work()
		err = lock.Unlock(s.Ctx)
	}
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		s.Error(err)
	}
}
