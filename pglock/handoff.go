package pglock

import "github.com/pglock-toolkit/pglock/pglock/driver"

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
	h.locks.add(k)
	counts := &h.home().counts
	counts.Waiting--
	counts.Held++
	counts.Acquired++
}
