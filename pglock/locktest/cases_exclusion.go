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

// mutualExclusion: the state under the lock is not atomic, so the race detector finds overlaps too.
func (s *suite) mutualExclusion() {
	lockers := []*pglock.Locker{s.open(), s.open(), s.open()}
	key := s.key("k")
	const workers, rounds = 12, 30
	var writers, readers atomic.Int32
	total := 0
	var wg sync.WaitGroup
	for i := range workers {
		l := lockers[i%len(lockers)]
		wg.Go(func() {
			for round := range rounds {
				if (i+round)%3 == 0 {
					s.inside(l, key, func() {
						readers.Add(1)
						if n := writers.Load(); n != 0 {
							s.Errorf("a reader and %d writers hold the lock at the same time", n)
						}
						runtime.Gosched()
						_ = total
						readers.Add(-1)
					}, pglock.Shared())
					continue
				}
				s.inside(l, key, func() {
					if n, m := writers.Add(1), readers.Load(); n != 1 || m != 0 {
						s.Errorf("%d writers and %d readers hold the lock at the same time", n, m)
					}
					total++
					runtime.Gosched()
					writers.Add(-1)
				})
			}
		})
	}
	wg.Wait()
	if want := workers * rounds * 2 / 3; total != want {
		s.Errorf("the counter is at %d, want %d", total, want)
	}
	s.free(key)
}

func (s *suite) inside(l *pglock.Locker, key pglock.Key, work func(), opts ...pglock.LockOption) {
	lock, err := l.Lock(s.Ctx, key, opts...)
	if err != nil {
		s.Error(err)
		return
	}
	work()
	if err := lock.Unlock(s.Ctx); err != nil {
		s.Error(err)
	}
}

func (s *suite) cancelStorm() {
	lockers := []*pglock.Locker{s.open(), s.open()}
	keys := []pglock.Key{s.key("a"), s.key("b")}
	var wg sync.WaitGroup
	enough := time.Now().Add(patience / 10) // on a machine that is slow
	for i := range 8 {
		l := lockers[i%2]
		wg.Go(func() {
			for round := 0; round < 40 && time.Now().Before(enough); round++ {
				ctx, cancel := context.WithTimeout(s.Ctx, time.Duration(rand.IntN(3000))*time.Microsecond)
				var lock *pglock.Lock
				var err error
				switch rand.IntN(4) {
				case 0:
					lock, err = l.LockAll(ctx, keys)
				case 1:
					lock, err = l.Lock(ctx, keys[rand.IntN(2)], pglock.Shared())
				default:
					lock, err = l.Lock(ctx, keys[rand.IntN(2)])
				}
				cancel()
				if err == nil {
					err = lock.Unlock(s.Ctx)
				} else if errors.Is(err, context.DeadlineExceeded) {
					err = nil
				}
				if err != nil {
					s.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for _, l := range lockers {
		if stats := l.Stats(); stats.Held != 0 || stats.Waiting != 0 {
			s.Errorf("after the storm: %+v", stats)
		}
	}
	s.free(keys...)
}
