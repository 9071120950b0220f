// Package notify tells others about the events of a journal: it starts a command, or posts to a webhook.
//
// A Notifier never delays its caller. It has a bounded queue, and delivers what is in it as one Group, at once if the last
// delivery was long enough ago, and otherwise when it is.
package notify

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/journal"
)

// maxQueue is how many events a Notifier keeps. Of further ones only the number is kept.
const maxQueue = 1000

// deliverTimeout bounds a delivery, and lastTimeout the one when the program ends.
const (
	deliverTimeout = 30 * time.Second
	lastTimeout    = 5 * time.Second
)

// maxAttempts is how often the delivery of an event is tried, if the error says that it may succeed later.
const maxAttempts = 3

// Group has the events of one delivery, the oldest first.
type Group struct {
	Events []journal.Event
	// Omitted is how many further events there were.
	Omitted int
}

// Target is where groups are delivered.
type Target interface {
	// Deliver delivers a group. Later says that another attempt may succeed.
	Deliver(ctx context.Context, g Group) (later bool, err error)
	// String names the target in messages, without secrets.
	String() string
}

// Notifier delivers events to a target. Its methods may be called concurrently.
type Notifier struct {
	target Target
	every  time.Duration
	logger *slog.Logger

	mu      sync.Mutex
	queue   Group
	arrived chan struct{} // has an element if the queue may have an event
}

// New returns a Notifier. It delivers at most one group in each period, from when Run is called.
func New(target Target, every time.Duration, logger *slog.Logger) *Notifier {
	return &Notifier{target: target, every: every, logger: logger, arrived: make(chan struct{}, 1)}
}

// Add adds events to the queue. It does not wait.
func (n *Notifier) Add(events []journal.Event) {
	if len(events) == 0 {
		return
	}
	n.mu.Lock()
	n.queue.addLocked(events)
	n.mu.Unlock()
	select {
	case n.arrived <- struct{}{}:
	default: // Run will look anyway
	}
}

func (g *Group) addLocked(events []journal.Event) {
	room := min(len(events), maxQueue-len(g.Events))
	g.Events = append(g.Events, events[:room]...)
	g.Omitted += len(events) - room
}

func (n *Notifier) take() Group {
	n.mu.Lock()
	defer n.mu.Unlock()
	g := n.queue
	n.queue = Group{}
	return g
}

// Run delivers what arrives until ctx ends, and then what is left.
func (n *Notifier) Run(ctx context.Context) {
	var failed error // of the last delivery, so that an outage is logged once
	for {
		select {
		case <-ctx.Done():
			_ = n.deliver(ctx, n.take(), failed, 1)
			return
		case <-n.arrived:
		}
		failed = n.deliver(ctx, n.take(), failed, maxAttempts)
		sleep(ctx, n.every)
	}
}

// deliver tries to deliver a group, a period apart, and logs the first error and the first success after it. When ctx ends
// between two attempts, Run makes the last one.
func (n *Notifier) deliver(ctx context.Context, g Group, failed error, attempts int) error {
	if len(g.Events) == 0 {
		return failed
	}
	for attempt := 1; ; attempt++ {
		later, err := n.attempt(ctx, g)
		switch {
		case err != nil && failed == nil:
			n.logger.Error("events could not be delivered", "to", n.target.String(), "error", err)
		case err == nil && failed != nil:
			n.logger.Info("events are delivered again", "to", n.target.String())
		}
		failed = err
		if err == nil || !later || attempt == attempts {
			return failed
		}
		if !sleep(ctx, n.every) {
			n.putBack(g)
			return failed
		}
	}
}

// attempt goes on for a while when ctx has ended.
func (n *Notifier) attempt(ctx context.Context, g Group) (later bool, err error) {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), deliverTimeout)
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(lastTimeout, cancel) })()
	return n.target.Deliver(bounded, g)
}

// putBack puts a group in front of the queue.
func (n *Notifier) putBack(g Group) {
	n.mu.Lock()
	defer n.mu.Unlock()
	g.addLocked(n.queue.Events)
	g.Omitted += n.queue.Omitted
	n.queue = g
}

// sleep sleeps, and reports whether ctx lasted that long.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
