package leadertest

import (
	"errors"
	"strings"

	"github.com/pglock-toolkit/pglock/pglock/leader"
)

func (s *suite) events() {
	events := make(chan leader.Event, 100)
	c := s.run(leads, leader.WithEvents(func(e leader.Event) { events <- e }))
	s.leading(c)
	s.must(c.Resign(s.ctx))
	s.leading(c)
	c.stop(nil)
	<-c.ended
	for i, want := range []leader.EventType{leader.EventElected, leader.EventEnded, leader.EventElected, leader.EventEnded} {
		event := <-events
		if event.Type != want || !event.Key.Equal(s.key()) || !strings.Contains(event.String(), string(want)) {
			s.Errorf("event %d is %v, want %s", i, event, want)
		}
		if resigned := errors.Is(event.Err, leader.ErrResigned); resigned != (i == 1) {
			s.Errorf("event %d has the error %v", i, event.Err)
		}
	}
	if len(events) > 0 {
		s.Errorf("one more event: %v", <-events)
	}
}
