// Package notify starts a command with the events of a journal.
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

// Group has the events of one delivery, the oldest first.
type Group struct {
	Events []journal.Event
	// Omitted is how many further events there were.
	Omitted int
}

// Notifier delivers events. Its methods may be called concurrently.
type Notifier struct {
	deliver func(context.Context, Group) error
	every   time.Duration
	logger  *slog.Logger

	mu      sync.Mutex
	queue   Group
	arrived chan struct{} // has an element if the queue may have an event
}

// New returns a Notifier that starts a command. It delivers at most one group in each period, from when Run is called.
func New(command Command, every time.Duration, logger *slog.Logger) *Notifier {
	return &Notifier{deliver: command.run, every: every, logger: logger, arrived: make(chan struct{}, 1)}
}

// Add adds events to the queue. It does not wait.
func (n *Notifier) Add(events []journal.Event) {
	if len(events) == 0 {
		return
	}
	n.mu.Lock()
	room := min(len(events), maxQueue-len(n.queue.Events))
	n.queue.Events = append(n.queue.Events, events[:room]...)
	n.queue.Omitted += len(events) - room
	n.mu.Unlock()
	select {
	case n.arrived <- struct{}{}:
	default: // Run will look anyway
	}
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
	var failed error // of the last delivery
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-n.arrived:
			failed = n.deliverAll(ctx, failed)
		}
		select {
		case <-ctx.Done():
		case <-time.After(n.every):
		}
	}
	_ = n.deliverAll(ctx, failed)
}

// deliverAll delivers what is in the queue. It logs the first failure and the first success after it.
func (n *Notifier) deliverAll(ctx context.Context, failed error) error {
	g := n.take()
	if len(g.Events) == 0 {
		return failed
	}
	err := n.attempt(ctx, g)
	switch {
	case err != nil && failed == nil:
		n.logger.Error("the command of --on-event failed", "error", err)
	case err == nil && failed != nil:
		n.logger.Info("the command of --on-event works again")
	}
	return err
}

// attempt goes on for a while when ctx has ended.
func (n *Notifier) attempt(ctx context.Context, g Group) error {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), deliverTimeout)
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(lastTimeout, cancel) })()
	return n.deliver(bounded, g)
}
