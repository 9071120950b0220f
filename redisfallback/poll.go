package redisfallback

import (
	"math/rand/v2"
	"strings"
	"time"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

const (
	maxPollInterval = 2 * time.Second // between two polls of a key, even if messages arrive
	lineAgain       = lineFor / 3 * time.Millisecond
	keysPerGet      = 512

	keysPerSecond = 50 // if each key costs a command

	// Clients of other libraries poll, mostly every 50 to 250 ms. To get their share of a lock, our waiters that are
	// first in line do so too, less often if the holder has not changed for some time.
	minFrequent = 75 * time.Millisecond
	maxFrequent = 250 * time.Millisecond
)

// schedule sets when w's key is polled: when the holder's lease is over, or at the next common poll.
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

// pollIntervalLocked is the time between two polls of the same key. If each key costs a command, it grows with their
// number.
func (ws *waiters) pollIntervalLocked() time.Duration {
	every := min(maxPollInterval, ws.backend.env.Lease/4)
	if ws.backend.nodes[0].single.Load() {
		every = max(every, time.Duration(len(ws.byNumber))*time.Second/keysPerSecond)
	}
	return every
}

// nextPoll is the next multiple of every, so that all keys are polled together.
func nextPoll(now driver.Instant, every time.Duration) driver.Instant {
	return (now/driver.Instant(every) + 1) * driver.Instant(every)
}

// frequentInterval is the time between two polls of a lock whose holder is not ours.
func frequentInterval(held time.Duration) time.Duration {
	return max(minFrequent, min(held/20, maxFrequent))
}

// jittered returns a random duration between 0.5 d and 1.5 d.
func jittered(d time.Duration) time.Duration { return d/2 + rand.N(d) }

// run polls keys when they are due, while there are waiters.
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

// pollDue polls the keys that are due and returns the time until the next poll; more is false if there are no waiters.
func (ws *waiters) pollDue() (next time.Duration, more bool) {
	now := driver.Now()
	var due, stale []*waiter
	ws.mu.Lock()
	every := ws.pollIntervalLocked()
	check := ws.checkSubscriptionsLocked(now)
	common := nextPoll(now, every)
	ws.planFrequentLocked(now)
	next = common.Sub(now)
	for _, w := range ws.byNumber {
		if w.due <= now {
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
	ws.pollKeys(due)
	ws.refreshLines(stale)
	if check {
		ws.checkSubscriptions()
	}
	return max(next, time.Millisecond), more
}

// planFrequentLocked sets the time of the next frequent poll once the last one is due.
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

// pollKeys polls the keys of waiters, and wakes those that may acquire them or whose server does not answer.
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

// pollNode is the node that is polled. On Redlock it is another one each time: a lock that is free on a majority of the
// nodes is then found soon, whichever nodes still have an old value.
func (ws *waiters) pollNode() *node {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	nodes := ws.backend.nodes
	for range nodes {
		ws.node = (ws.node + 1) % len(nodes)
		if !nodes[ws.node].isDown() {
			break
		}
	}
	return nodes[ws.node]
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
	for i, w := range waiters {
		if !ok || i >= len(values) || w.mayAcquireLocked(values[i], now) {
			w.signal()
		}
	}
}

// mayAcquireLocked reports whether w should ask again, given the value of the lock's key: the lock is free, or w's own,
// or shared and w is another reader. If the value has changed and is not ours, the lock was free meanwhile and our line
// did not get it: w may have become the first in line because the waiters before it died.
func (w *waiter) mayAcquireLocked(value any, now driver.Instant) bool {
	token, held := value.(string)
	if !held || tokenIn(token) == w.grant.token || w.grant.shared && token == sharedValue {
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

// tokenIn returns the token in a lock's value, which may end in the number of an attempt.
func tokenIn(value string) string {
	if last := strings.LastIndexByte(value, '-'); isOurs(value) && strings.IndexByte(value, '-') < last {
		return value[:last]
	}
	return value
}

// isOurs reports whether a lock's value looks like one of this package's; see foreign in common.lua.
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
		case i < text && (c < 'A' || c > 'Z') && (c < '2' || c > '7'), i > text && (c < '0' || c > '9') && c != '-':
			return false
		}
	}
	return true
}

// refreshLines extends the expiry of the waiters' lines, and wakes waiters that are not in theirs, so that they ask
// again. On Redlock all ask, which has the same effect on every node.
func (ws *waiters) refreshLines(waiters []*waiter) {
	for _, w := range waiters {
		if ws.backend.redlock() {
			w.signal()
			continue
		}
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
			&call{request: request{args: []any{"zscore", line, w.grant.place()}}, then: then},
		)
	}
}
