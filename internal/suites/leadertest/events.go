package leadertest

import (
	"context"
	"strings"
	"time"

	"github.com/pglock-toolkit/pglock/pglock/leader"
)

// follow returns the elector's events from now on.
func (s *suite) follow(e *leader.Elector) <-chan leader.Event {
	events := make(chan leader.Event)
	go func() {
		defer close(events)
		for event := range e.Events() {
			select {
			case events <- event:
			case <-s.ctx.Done():
				return
			}
		}
	}()
	return events
}

// expect waits for an event of type want, and fails the test if an event of another type that is not allowed comes
// first.
func (s *suite) expect(events <-chan leader.Event, want leader.EventType, mayCome ...leader.EventType) leader.Event {
	s.Helper()
	for {
		select {
		case event := <-events:
			if event.Type == want {
				if !event.Key.Equal(s.key()) || event.Time.IsZero() || !strings.Contains(event.String(), string(want)) {
					s.Errorf("the event is %+v", event)
				}
				return event
			}
			allowed := false
			for _, other := range mayCome {
				allowed = allowed || event.Type == other
			}
			if !allowed {
				s.Fatalf("the event is %v, want %s", event, want)
			}
		case <-s.ctx.Done():
			s.Fatalf("no event %s", want)
		}
	}
}

func (s *suite) events() {
	watcher := s.run(leads, leader.Eligible(func(context.Context) bool { return false }))
	seen := s.follow(watcher.Elector)
	s.expect(seen, leader.NoLeader)
	c := &candidate{locker: s.open(s.T), ended: make(chan error, 1)}
	c.Elector = s.elector(c.locker)
	own := s.follow(c.Elector) // before Run
	s.start(c, leads)
	s.expect(own, leader.Elected, leader.NoLeader, leader.NewLeader)
	s.expect(seen, leader.NewLeader)
	s.must(c.Resign(s.ctx))
	if err := s.expect(own, leader.Ended, leader.NoLeader, leader.NewLeader).Err; err == nil {
		s.Error("the event of a resignation has no error")
	}
	s.expect(own, leader.Elected, leader.NoLeader, leader.NewLeader)
	s.leading(c)
	c.stop(nil)
	<-c.ended
	s.expect(own, leader.Ended, leader.NoLeader, leader.NewLeader)
	s.until("the events end with Run", func() bool {
		select {
		case _, more := <-own:
			return !more
		default:
			return false
		}
	})
	s.expect(seen, leader.NoLeader, leader.NoLeader, leader.NewLeader)
	watcher.stop(nil)
}

func (s *suite) slowReader() {
	c := s.run(leads)
	s.leading(c)
	started, goOn, count := make(chan struct{}), make(chan struct{}), make(chan int)
	go func() {
		n := 0
		for event := range c.Events() {
			if n == 0 {
				close(started)
				<-goOn
			}
			if event.Type == leader.Elected || event.Type == leader.Ended {
				n++
			}
		}
		count <- n
	}()
	<-started // with the most recent event
	for range 5 {
		s.must(c.Resign(s.ctx))
		s.leading(c)
	}
	c.stop(nil)
	<-c.ended
	close(goOn)
	select {
	case n := <-count:
		if n != 1+5*2+1 {
			s.Errorf("a slow reader saw %d events of the terms, want %d", n, 1+5*2+1)
		}
	case <-time.After(patience):
		s.Error("the events do not end with Run")
	}
}
