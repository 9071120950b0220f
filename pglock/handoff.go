package pglock

import (
	"context"
	"fmt"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// mayHandOffLocked reports whether h may get one more Lock without asking the server.
func (l *Locker) mayHandOffLocked(h *hold) bool {
	return !h.over && !h.kept && !l.closed.Load() && int(h.passed) < l.config.handoffs && driver.Now().Sub(h.first.since) < l.config.handoffFor
}

// successorLocked returns the request that h can be handed off to when its last Lock ends, or nil.
func (l *Locker) successorLocked(h *hold) *request {
	if h.multi != nil || h.shared {
		return nil
	}
	e := h.entry[0]
	if len(e.queue) == 0 || e.queue[0].config.shared || len(e.queue[0].keys) != 1 || !l.mayHandOffLocked(h) {
		return nil
	}
	return e.queue[0]
}

// handOffLocked hands h off to r after its last Lock has ended.
func (l *Locker) handOffLocked(h *hold, r *request) {
	h.entry[0].dequeueLocked(r)
	l.shareLocked(h, r)
	close(r.ready)
}

// shareLocked makes a Lock for r on a hold that this process has already. From now on a loss of the hold ends it, even if the
// waiting call has not returned it yet.
func (l *Locker) shareLocked(h *hold, r *request) {
	h.passed++
	h.home().counts.HandedOff++
	r.lock = &Lock{}
	l.attachLocked(r, h, r.lock)
}

// attachLocked makes k the Lock of r on h.
func (l *Locker) attachLocked(r *request, h *hold, k *Lock) {
	k.hold, k.key[0], k.since, k.token = h, r.keys[0], driver.Now(), r.token.Number
	if k.token == 0 {
		k.lazyLocked().token = r.token.Text
	}
	if r.config.use != nil {
		k.lazyLocked().use = r.config.use
	}
	h.locks = append(h.locks, k)
	counts := &h.home().counts
	counts.Waiting--
	counts.Held++
	counts.Acquired++
}

// handOff is [hooks.HandOff]. If a loss and handOff race, the first to lock the shard's mu decides whether k or the new
// Lock is lost.
func (k *Lock) handOff(to context.Context, opts []LockOption) (next *Lock, report func(), err error) {
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
	removeOne(&h.locks, k)
	next = h.succeedLocked(k, c)
	l.unlock(h.shards())
	next.limit(c.maxHold)
	return next, func() {
		k.reportReleased(to)
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
	h.locks = append(h.locks, next)
	h.passed++
	counts := &h.home().counts
	counts.HandedOff++
	counts.Acquired++
	return next
}

// reportHandedOff reports a Lock that handOff has made.
func (k *Lock) reportHandedOff(ctx context.Context) {
	if o := k.hold.locker.config.observer; o != nil {
		e := k.event(EventAcquired)
		e.Took, e.Source = 0, SourceHandoff
		k.reportAcquired(o.observe(ctx, e))
	}
}
