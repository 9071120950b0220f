package pglock

import (
	"context"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// passOn ends k as Unlock does, and returns the Lock that takes its place on the hold. It is for queues outside the
// Locker, which keep the handoff limit themselves. It returns nil when k has ended, or when a request waits for the key
// here. report calls the Observer; passOn does not.
//
// If a loss and passOn race, the first to lock the shard's mu decides whether k or the new Lock is lost.
func (k *Lock) passOn(from, to context.Context, opts []LockOption) (next *Lock, report func()) {
	h, l := k.hold, k.hold.locker
	var c lockConfig
	for _, opt := range opts {
		if opt.applyLock(&c) != nil {
			return nil, nil // the primitive has read the options before
		}
	}
	l.lock(h.shards())
	may := !h.over && driver.Now() < h.grant.Deadline() && h.multi == nil && !h.shared && len(h.entry[0].queue) == 0 && !l.closed.Load()
	if !may || !k.end(ErrUnlocked) {
		l.unlock(h.shards())
		return nil, nil
	}
	h.locks.remove(k)
	next = h.succeedLocked(k, c)
	l.unlock(h.shards())
	next.limit(c.maxHold)
	return next, func() {
		k.reportReleased(from)
		next.reportPassedOn(to)
	}
}

// succeedLocked makes the Lock that takes the place of k.
func (h *hold) succeedLocked(k *Lock, c lockConfig) *Lock {
	token := driver.Token{Text: c.token}
	if c.token == "" {
		token = h.locker.tokens.next()
	}
	next := &Lock{hold: h, key: k.key, since: driver.Now(), token: token.Number}
	if token.Number == 0 {
		next.lazyLocked().token = token.Text
	}
	if c.use != nil {
		next.lazyLocked().use = c.use
	}
	h.locks.add(next)
	h.passed++
	counts := &h.home().counts
	counts.HandedOff++
	counts.Acquired++
	return next
}

// reportPassedOn reports a Lock that passOn has made.
func (l *Lock) reportPassedOn(ctx context.Context) {
	o := l.hold.locker.config.observer
	if o == nil {
		return
	}
	var own context.Context
	if o.Acquired != nil {
		own = o.Acquired(ctx, AcquiredInfo{Keys: l.Keys(), Source: AcquiredHanded, Use: l.used(), Token: l.Token()})
	}
	l.reportAcquired(ctx, own)
}
