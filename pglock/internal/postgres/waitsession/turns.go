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
	most  int
	began time.Time

	mu      sync.Mutex
	used    int
	pollers []*Turn   // the oldest first
	over    time.Time // when a place over the bound was last given
}

// Turn is a caller who waits for a lock.
type Turn struct {
	turns *Turns
	place chan struct{} // filled when it has a place
	pause time.Duration // before its next try

	// Under turns.mu:
	placed bool
	since  time.Time // when it began to poll
}

// NewTurns makes a bound of most places.
func NewTurns(most int) *Turns { return &Turns{most: most, began: time.Now()} }

// Join gives a newcomer a place, or makes it poll. Leave must follow.
func (t *Turns) Join() *Turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := &Turn{turns: t, place: make(chan struct{}, 1)}
	free := len(t.pollers) == 0 && t.used < t.most
	t.pollLocked(n)
	if free {
		t.promoteLocked()
	}
	return n
}

// Next waits for a place, or until it is time to try.
func (n *Turn) Next(ctx context.Context) (placed bool, err error) {
	n.pause = min(max(2*n.pause, firstPoll), lastPoll)
	timer := time.NewTimer(n.turns.together(n.pause/2 + rand.N(n.pause))) // processes should not poll together
	defer timer.Stop()
	select {
	case <-n.place:
		return true, nil
	case <-timer.C:
		n.turns.offer()
		return false, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

// together lengthens a long pause, so that pollers of this process try at the same moments, and share statements.
func (t *Turns) together(pause time.Duration) time.Duration {
	if pause < 4*pollTogether {
		return pause
	}
	end := time.Since(t.began) + pause
	return pause + (end + pollTogether - 1).Truncate(pollTogether) - end
}

// offer gives the oldest poller a place if it has polled for longPoll. Such a place can be over the bound; one is given in each
// longPoll.
func (t *Turns) offer() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.pollers) > 0 && t.used < atMost*t.most && time.Since(t.pollers[0].since) >= longPoll && time.Since(t.over) >= longPoll {
		t.over = time.Now()
		t.promoteLocked()
	}
}

// Poll gives up a place for which no session could be opened. No other poller is given it.
func (n *Turn) Poll() {
	n.turns.mu.Lock()
	defer n.turns.mu.Unlock()
	n.giveUpLocked()
	n.turns.pollLocked(n)
}

// Leave ends the turn, and gives its place to the oldest poller. A second call does nothing.
func (n *Turn) Leave() {
	t := n.turns
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pollers = slices.DeleteFunc(t.pollers, func(other *Turn) bool { return other == n })
	if n.giveUpLocked() && len(t.pollers) > 0 && t.used < t.most {
		t.promoteLocked()
	}
}

func (n *Turn) giveUpLocked() (had bool) {
	if had = n.placed; had {
		n.placed = false
		n.turns.used--
	}
	return had
}

func (t *Turns) pollLocked(n *Turn) {
	n.since = time.Now()
	t.pollers = append(t.pollers, n)
}

// promoteLocked gives the oldest poller a place.
func (t *Turns) promoteLocked() {
	oldest := t.pollers[0]
	t.pollers = slices.Delete(t.pollers, 0, 1)
	t.used++
	oldest.placed = true
	oldest.place <- struct{}{}
}

const (
	firstPoll = 20 * time.Millisecond
	lastPoll  = time.Second
	longPoll  = 3 * time.Second // after which a poller gets a place in any case
	atMost    = 2               // times the bound are places given at all
	// pollTogether is how far the moments are apart at which pollers try that have waited for long.
	pollTogether = 50 * time.Millisecond
)
