package pglock

import (
	"context"
	"fmt"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// handOff is [hooks.HandOff]. If a loss and handOff race, the first to lock the shard's mu decides whether k or the new
// Lock is lost.
func (k *Lock) handOff(from, to context.Context, opts []LockOption) (next *Lock, report func(), err error) {
	var c lockConfig
	if err := c.read(opts); err != nil {
		return nil, nil, err
	}
	h, l := k.hold, k.hold.locker
	l.lock(h.shards())
	may := !h.over && !h.kept && driver.Now() < h.grant.Deadline() && h.multi == nil && !h.shared && len(h.entry[0].queue) == 0 && !l.closed.Load()
	if !may || !k.end(ErrUnlocked) {
		l.unlock(h.shards())
		return nil, nil, k.says("hand off", errNoHandOff)
	}
	h.locks.remove(k)
	next = h.succeedLocked(k, c)
	l.unlock(h.shards())
	next.limit(c.maxHold)
	return next, func() {
		k.reportReleased(from)
		next.reportHandedOff(to)
	}, nil
}

var errNoHandOff = fmt.Errorf("%w by the next: it has ended or is shared, or others wait for it", ErrNotAcquired)

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

// reportHandedOff reports a Lock that handOff has made.
func (k *Lock) reportHandedOff(ctx context.Context) {
	o := k.hold.locker.config.observer
	if o == nil {
		return
	}
	var own context.Context
	if o.Acquired != nil {
		own = o.Acquired(ctx, AcquiredInfo{Keys: k.Keys(), Source: AcquiredHanded, Use: k.used(), Token: k.Token()})
	}
	k.reportAcquired(ctx, own)
}
