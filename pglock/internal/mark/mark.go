// Package mark says what the locks of primitives are for: to the Observer, and to the monitor, which sees only keys.
package mark

import (
	"context"

	"github.com/pglock-toolkit/pglock/internal/lockkeys"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/internal/bridge"
)

// Use returns the option that reports to the Observer what a lock is for.
func Use(kind pglock.UseKind, key pglock.Key) pglock.LockOption {
	return bridge.WithUse(string(kind), key).(pglock.LockOption)
}

// Mark is a lock that is held in addition to another one, for the monitor. The zero Mark holds none.
type Mark struct{ taken chan *pglock.Lock }

// Take takes the mark that goes with the lock of key, if the monitor can see l's locks. Nothing depends on the mark, so
// Take does not wait for it; if it is not free, the lock stays unmarked. The mark is shared, since the previous holder
// may not have released it yet.
func Take(ctx context.Context, l *pglock.Locker, m lockkeys.Mark, kind pglock.UseKind, key pglock.Key) Mark {
	if !bridge.Monitored(l) {
		return Mark{}
	}
	class, object, _ := m.Of(key.ID()).Pair()
	mark := Mark{make(chan *pglock.Lock, 1)}
	go func() {
		defer close(mark.taken)
		lock, err := l.TryLock(ctx, pglock.PairKey(class, object), pglock.Shared(), Use(kind, key))
		if err == nil {
			mark.taken <- lock
		}
	}()
	return mark
}

// Unlock releases the mark. Call it after the marked lock has ended, so that waiters for that lock do not wait for the
// mark too.
func (m Mark) Unlock(ctx context.Context) {
	if m.taken == nil {
		return
	}
	if lock := <-m.taken; lock != nil {
		_ = lock.Unlock(ctx) // its loss does not concern the marked lock
	}
}
