package leader

import (
	"context"
	"time"

	"github.com/pglock-toolkit/pglock/pglock"
)

// view is what was last reported about the leader in other processes.
type view struct {
	known  EventType // NewLeader, NoLeader or Unavailable; "" when nothing has been reported
	leader pglock.Holder
}

// look makes the observer ask the server at once.
func (e *Elector) look() {
	select {
	case e.wake <- struct{}{}:
	default: // it will ask anyway
	}
}

// observe asks who leads, while this process does not and events are wanted, until ctx ends.
func (e *Elector) observe(ctx context.Context) {
	tick := time.NewTicker(e.config.observeEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		if e.wanted() {
			e.observeOnce(ctx)
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		case <-e.wake:
		}
	}
}

// wanted reports whether there is a reason to ask.
func (e *Elector) wanted() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.term == nil && (e.config.onEvent != nil || e.listeners > 0)
}

func (e *Elector) observeOnce(ctx context.Context) {
	leader, ok, err := e.Leader(ctx)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		e.unavailable(err)
	case ok:
		e.seen(Event{Type: NewLeader, Leader: leader})
	default:
		e.seen(Event{Type: NoLeader})
	}
}

// unavailable reports an outage, once.
func (e *Elector) unavailable(err error) {
	if e.seen(Event{Type: Unavailable, Err: err}) {
		e.warn("cannot campaign to be the leader, and tries again", err)
	}
}

// seen reports an answer if it differs from the last one. An answer that arrives after this process was elected is out
// of date.
func (e *Elector) seen(event Event) (news bool) {
	return e.report(event, func() bool {
		now := view{known: event.Type, leader: event.Leader}
		own := event.Type == NewLeader && event.Leader.Token != "" && event.Leader.Token == e.token
		if e.term != nil || own || now == e.view {
			return false
		}
		e.view = now
		return true
	})
}
