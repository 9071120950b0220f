package semaphore

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/pglock-toolkit/pglock/pglock"
)

// look tries slots that may be free until it has want of them or has tried all. It may return more, since slots are
// tried in groups that share a statement. The first group has as many slots as are wanted, and each later one four
// times as many as the one before; if no slot was free a moment ago, all are tried at once. look runs while this
// process holds the gate: no other process looks at the same time, so none can miss a slot that is taken here but not
// needed.
func (s *Semaphore) look(ctx context.Context, want int) (found []held, err error) {
	slots, blocked := s.candidates()
	if len(slots) == 0 { // all are held here: a try needs no server, and fails if the Locker is closed
		return s.try(ctx, 1)
	}
	ask := want
	if blocked {
		ask = len(slots)
	}
	for len(slots) > 0 && len(found) < want && err == nil {
		ask = min(ask, len(slots))
		var more []held
		more, err = s.tryAll(ctx, slots[:ask])
		found, slots, ask = append(found, more...), slots[ask:], 4*ask
	}
	return found, err
}

// candidates returns the slots that are not held here: first those that were given back here, then the others,
// beginning with a random one. blocked says that none was free a moment ago.
func (s *Semaphore) candidates() (slots []int, blocked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	mine := func(slot int) bool { return s.mine[slot] != nil && s.mine[slot].Err() == nil }
	slots = make([]int, 0, s.n)
	for i := len(s.recent) - 1; i >= 0; i-- {
		if slot := s.recent[i]; !mine(slot) {
			slots = append(slots, slot)
		}
	}
	recent := len(slots)
	for i, start := 0, rand.IntN(s.n); i < s.n; i++ {
		if slot := (start+i)%s.n + 1; !mine(slot) && !slices.Contains(slots[:recent], slot) {
			slots = append(slots, slot)
		}
	}
	return slots, s.blocked
}

// tryAll tries slots concurrently.
func (s *Semaphore) tryAll(ctx context.Context, slots []int) (found []held, err error) {
	if len(slots) == 1 {
		return s.try(ctx, slots[0])
	}
	var mu sync.Mutex
	var asking sync.WaitGroup
	for _, slot := range slots {
		asking.Go(func() {
			got, tryErr := s.try(ctx, slot)
			mu.Lock()
			defer mu.Unlock()
			found = append(found, got...)
			if tryErr != nil {
				err = tryErr
			}
		})
	}
	asking.Wait()
	return found, err
}

func (s *Semaphore) try(ctx context.Context, slot int) ([]held, error) {
	lock, err := s.locker.TryLock(ctx, s.keys[slot], s.slot...)
	switch {
	case err == nil:
		return []held{{slot, lock}}, nil
	case errors.Is(err, pglock.ErrNotAcquired):
		return nil, nil
	}
	return nil, err
}
