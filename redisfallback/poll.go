package redisfallback

import (
	"math/rand/v2"
	"time"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

const (
	maxPollInterval = 2 * time.Second // after which a key is looked at, whatever was heard of it
	lineAgain       = lineFor / 3 * time.Millisecond
	keysPerGet      = 512

	keysPerSecond = 50 // where each key costs a command

	// Other clients poll, mostly every 50 to 250 ms. To get their share of a lock, those of our waiters that are first
	// in line do so too: more seldom if the holder has not changed for some time.
	minFrequent = 75 * time.Millisecond
	maxFrequent = 250 * time.Millisecond
)

// schedule has w's key looked at when the holder's lease is over, or at the next common look.
func (ws *waiters) schedule(w *waiter, r refusal) {
	now := driver.Now()
	ws.mu.Lock()
	w.due = nextPoll(now, ws.pollIntervalLocked())
	next := w.due
	if w.often = r.often; w.often {
		if ws.frequent <= now {
			ws.frequent = now.Add(jittered(minFrequent))
		}
		w.due = min(w.due, ws.frequent)
	}
	if r.busy > 0 {
		w.due = min(w.due, now.Add(r.busy+time.Millisecond))
	}
	early := w.due < next
	ws.mu.Unlock()
	if early {
		select {
		case ws.earlier <- struct{}{}:
		default:
		}
	}
}

// pollIntervalLocked is the time between two looks at the same key. Where each key costs a command, many are looked at
// less often.
func (ws *waiters) pollIntervalLocked() time.Duration {
	every := min(maxPollInterval, ws.backend.env.Lease/4)
	if ws.backend.nodes[0].single.Load() {
		every = max(every, time.Duration(len(ws.byNumber))*time.Second/keysPerSecond)
	}
	return every
}

// nextPoll is the next multiple of every, at which all look together.
func nextPoll(now driver.Instant, every time.Duration) driver.Instant {
	return (now/driver.Instant(every) + 1) * driver.Instant(every)
}

// frequentInterval is the time until a lock is looked at again whose holder is not ours.
func frequentInterval(held time.Duration) time.Duration {
	return max(minFrequent, min(held/20, maxFrequent))
}

// jittered returns a time between a half of d and one and a half.
func jittered(d time.Duration) time.Duration { return d/2 + rand.N(d) }

// run looks at keys when that is due, while there are waiters.
func (ws *waiters) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ws.ctx.Done():
			return
		case <-ws.earlier:
		case <-timer.C:
		}
		next, more := ws.pollDue()
		if !more {
			return
		}
		timer.Reset(next)
	}
}

// pollDue looks at what is due, and says when to do so again; more is false when nobody waits.
func (ws *waiters) pollDue() (next time.Duration, more bool) {
	now := driver.Now()
	var due, ask, stale []*waiter
	ws.mu.Lock()
	every := ws.pollIntervalLocked()
	common := nextPoll(now, every)
	ws.planFrequentLocked(now)
	next = common.Sub(now)
	for _, w := range ws.byNumber {
		switch {
		case w.due > now:
		case ws.backend.redlock() && !w.often: // one node's value decides nothing
			ask = append(ask, w)
			w.due = common
		default:
			due = append(due, w)
			w.due = common
			if w.often {
				w.due = min(common, ws.frequent)
			}
		}
		next = min(next, w.due.Sub(now))
		if now.Sub(w.fresh) >= lineAgain {
			stale = append(stale, w)
			w.fresh = now
		}
		ws.subscribeLocked(w)
	}
	ws.running = len(ws.byNumber) > 0
	more = ws.running
	ws.mu.Unlock()
	for _, w := range ask {
		w.signal()
	}
	ws.pollKeys(due)
	if !ws.backend.redlock() { // there they ask again, which does the same
		ws.refreshLines(stale)
	}
	return max(next, time.Millisecond), more
}

// planFrequentLocked sets the time of the next frequent look once the last one has come.
func (ws *waiters) planFrequentLocked(now driver.Instant) {
	if ws.frequent > now {
		return
	}
	interval, n := maxFrequent, 0
	for _, w := range ws.byNumber {
		if w.often {
			n++
			held := time.Duration(0)
			if w.seen != "" {
				held = now.Sub(w.since)
			}
			interval = min(interval, frequentInterval(held))
		}
	}
	if ws.backend.nodes[0].single.Load() {
		interval = max(interval, time.Duration(n)*time.Second/keysPerSecond)
	}
	ws.frequent = now.Add(jittered(interval))
}

// pollKeys looks at the keys of waiters, and wakes those who may have a chance, or whose server does not answer.
func (ws *waiters) pollKeys(waiters []*waiter) {
	n := ws.pollNode()
	size := keysPerGet
	if n.single.Load() {
		size = 1 // they are in many slots
	}
	var calls []*call
	for len(waiters) > 0 {
		some := waiters[:min(size, len(waiters))]
		waiters = waiters[len(some):]
		args := []any{"mget"}
		for _, w := range some {
			args = append(args, w.names.lock)
		}
		calls = append(calls, &call{request: request{args: args}, then: func(c *call) { ws.answered(n, some, c) }})
	}
	n.submit(calls...)
}

// pollNode is the node that is looked at: of a Redlock, another one when it has failed.
func (ws *waiters) pollNode() *node {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return ws.backend.nodes[ws.node%len(ws.backend.nodes)]
}

// answered handles the values of the waiters' keys.
func (ws *waiters) answered(n *node, waiters []*waiter, c *call) {
	if isCrossSlot(c.err) {
		n.single.Store(true)
		ws.pollKeys(waiters)
		return
	}
	values, ok := c.value.([]any)
	now := driver.Now()
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if !ok {
		ws.node++
	}
	for i, w := range waiters {
		if !ok || i >= len(values) || w.mayAcquireLocked(values[i], now) {
			w.signal()
		}
	}
}

// mayAcquireLocked reports whether w should ask again, judging by the value of the lock's key: it is free, or w's own, or
// shared and w is another reader. If it has changed, and is not ours, the lock has been free meanwhile without our line
// getting it: then w may have become the first in line, because those before it died.
func (w *waiter) mayAcquireLocked(value any, now driver.Instant) bool {
	token, held := value.(string)
	if !held || token == w.grant.token || w.grant.shared && token == sharedValue {
		return true
	}
	if isOurs(token) {
		w.seen = ""
		return false
	}
	changed := w.seen != "" && w.seen != token
	if w.seen != token {
		w.seen, w.since = token, now
	}
	return changed && !w.often
}

// isOurs reports whether a lock's value looks like one of this package; see foreign in common.lua.
func isOurs(value string) bool {
	if value == sharedValue {
		return true
	}
	const text = 26 // of crypto/rand.Text, before "-" and a number
	if len(value) < text+2 || value[text] != '-' {
		return false
	}
	for i, c := range []byte(value) {
		switch {
		case i < text && (c < 'A' || c > 'Z') && (c < '2' || c > '7'), i > text && (c < '0' || c > '9'):
			return false
		}
	}
	return true
}

// refreshLines keeps the lines from being forgotten in which waiters stand, and has those ask again that do not.
func (ws *waiters) refreshLines(waiters []*waiter) {
	for _, w := range waiters {
		line := w.names.writers()
		if w.grant.shared {
			line = w.names.readers()
		}
		then := func(c *call) {
			if c.err != nil || c.value == int64(0) {
				w.signal()
			}
		}
		ws.backend.nodes[0].submit(
			&call{request: request{args: []any{"pexpire", line, lineFor}}, then: then},
			&call{request: request{args: []any{"zscore", line, w.grant.waiter()}}, then: then},
		)
	}
}
