package waitsession

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// Turns bounds the sessions of a [Pool].
type Turns struct {
	most int

	mu       sync.Mutex
	used     int
	pollers  []*Turn // the oldest first
	timer    *time.Timer
	interval time.Duration
}

// Turn is a caller who waits for a lock.
type Turn struct {
	turns  *Turns
	since  time.Time     // when it began to poll
	look   chan struct{} // filled when it may try, or has a place
	placed bool          // under turns.mu
}

// NewTurns makes a bound of most places.
func NewTurns(most int) *Turns { return &Turns{most: most} }

// Join gives a newcomer a place, or makes it poll. Leave must follow.
func (t *Turns) Join() *Turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := &Turn{turns: t, look: make(chan struct{}, 1)}
	if len(t.pollers) == 0 && t.used < t.most {
		t.placeLocked(n)
	} else {
		t.pollLocked(n)
	}
	return n
}

// Next waits for a place, or until it is time to try.
func (n *Turn) Next(ctx context.Context) (placed bool, err error) {
	select {
	case <-n.look:
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	n.turns.mu.Lock()
	defer n.turns.mu.Unlock()
	return n.placed, nil
}

// Poll gives up a place that was of no use.
func (n *Turn) Poll() {
	t := n.turns
	t.mu.Lock()
	defer t.mu.Unlock()
	t.freeLocked(n)
	t.pollLocked(n)
}

// Leave ends the turn. A second call does nothing.
func (n *Turn) Leave() {
	t := n.turns
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pollers = slices.DeleteFunc(t.pollers, func(other *Turn) bool { return other == n })
	t.freeLocked(n)
}

// Progress says that a poller got something, so that others may.
func (t *Turns) Progress() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.interval = firstPoll
}

func (t *Turns) placeLocked(n *Turn) {
	t.used++
	n.placed = true
	n.wakeLocked()
}

func (n *Turn) wakeLocked() {
	select {
	case n.look <- struct{}{}:
	default: // it is going to look
	}
}

// freeLocked takes a place back, if n has one, and gives it to the oldest poller.
func (t *Turns) freeLocked(n *Turn) {
	if !n.placed {
		return
	}
	n.placed = false
	t.used--
	if len(t.pollers) > 0 && t.used < t.most {
		t.promoteLocked()
	}
}

func (t *Turns) promoteLocked() {
	oldest := t.pollers[0]
	t.pollers = slices.Delete(t.pollers, 0, 1)
	t.placeLocked(oldest)
}

func (t *Turns) pollLocked(n *Turn) {
	n.since = time.Now()
	t.pollers = append(t.pollers, n)
	if len(t.pollers) == 1 {
		t.interval = firstPoll
		t.timer = time.AfterFunc(t.pauseLocked(), t.tick)
	}
}

// tick has all pollers try, but for the oldest one if it has polled for long enough.
func (t *Turns) tick() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.pollers) == 0 {
		return
	}
	if time.Since(t.pollers[0].since) >= longPoll {
		t.promoteLocked()
	}
	for _, n := range t.pollers {
		n.wakeLocked()
	}
	if len(t.pollers) > 0 {
		t.interval = min(2*t.interval, lastPoll)
		t.timer.Reset(t.pauseLocked())
	}
}

// pauseLocked is the next pause, with some chance in it, so that processes do not poll together.
func (t *Turns) pauseLocked() time.Duration { return t.interval/2 + rand.N(t.interval) }

const (
	firstPoll = 20 * time.Millisecond
	lastPoll  = time.Second
	longPoll  = 3 * time.Second // after which a poller gets a place in any case
)
