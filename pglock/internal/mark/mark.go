// Package mark tells the monitor, which sees only keys, what the locks of primitives are for.
package mark

import (
	"context"

	"github.com/pglock-toolkit/pglock/internal/hooks"
	"github.com/pglock-toolkit/pglock/internal/lockkeys"
	"github.com/pglock-toolkit/pglock/pglock"
)

// Mark is a lock that is held while another one is waited for and held, for the monitor: with it the process says of itself what
// it waits for, or does. It is taken in the background. The zero Mark holds none.
type Mark struct {
	taken chan *pglock.Lock
	end   context.CancelFunc
}

// Begin takes the mark that goes with the lock of use.Key, if the monitor can see l's locks.
// Nothing depends on the mark, so it is not waited for; if it is not free, the lock stays unmarked. The mark is shared by all that
// wait for the lock.
func Begin(ctx context.Context, l *pglock.Locker, m lockkeys.Mark, use pglock.Use) Mark {
	backend, err := hooks.Backend(l)
	if _, monitored := backend.(hooks.Recorder); err != nil || !monitored {
		return Mark{}
	}
	class, object, _ := m.Of(use.Key.ID()).Pair()
	ctx, end := context.WithCancel(ctx)
	mark := Mark{make(chan *pglock.Lock, 1), end}
	go func() {
		defer close(mark.taken)
		lock, err := l.TryLock(ctx, pglock.PairKey(class, object), pglock.Shared(), hooks.WithUse(use).(pglock.LockOption))
		if err == nil {
			mark.taken <- lock
		}
	}()
	return mark
}

// Unlock releases the mark. Call it after the marked lock has ended.
func (m Mark) Unlock(ctx context.Context) {
	if m.taken == nil {
		return
	}
	m.end()
	if lock := <-m.taken; lock != nil {
		_ = lock.Unlock(ctx) // its loss does not concern the marked lock
	}
}
