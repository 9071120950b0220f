// Package mark tells the monitor, which sees only keys, what the locks of primitives are for.
package mark

import (
	"context"
	"time"

	"github.com/pglock-toolkit/pglock/internal/hooks"
	"github.com/pglock-toolkit/pglock/internal/lockkeys"
	"github.com/pglock-toolkit/pglock/pglock"
)

// Mark is a lock that is held while another one is waited for and held, for the monitor: with it the process says of itself what
// it waits for, or does. It is taken in the background. The zero Mark holds none.
type Mark struct {
	taken chan *pglock.Lock
	now   context.CancelFunc // ends the pause before it is taken
	end   context.CancelFunc
}

// pause is how long the process waits for the lock before it says so. Most waits are shorter, and need no mark;
// and asked for beside the lock, it would make a new Locker dial a second session.
const pause = 250 * time.Millisecond

// Begin takes the mark that goes with the lock of use.Key, after a pause or when Now is called, if the monitor can see l's locks.
// Nothing depends on the mark, so it is not waited for; if it is not free, the lock stays unmarked. The mark is shared by all that
// wait for the lock.
func Begin(ctx context.Context, l *pglock.Locker, m lockkeys.Mark, use pglock.Use) Mark {
	backend, err := hooks.Backend(l)
	if _, monitored := backend.(hooks.Recorder); err != nil || !monitored {
		return Mark{}
	}
	class, object, _ := m.Of(use.Key.ID()).Pair()
	ctx, end := context.WithCancel(ctx)
	waiting, now := context.WithTimeout(ctx, pause)
	mark := Mark{make(chan *pglock.Lock, 1), now, end}
	go func() {
		defer close(mark.taken)
		<-waiting.Done()
		now()
		if ctx.Err() != nil {
			return
		}
		lock, err := l.TryLock(ctx, pglock.PairKey(class, object), pglock.Shared(), hooks.WithUse(use).(pglock.LockOption))
		if err == nil {
			mark.taken <- lock
		}
	}()
	return mark
}

// Now takes the mark at once. Call it when the lock is granted.
func (m Mark) Now() {
	if m.now != nil {
		m.now()
	}
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
