package waitsession

import (
	"context"
	"time"

	"github.com/pglock-toolkit/pglock/internal/timing"
)

// takeOrTry takes a place with a session. Until it has one, it calls try after each of its pauses; tried says that this has
// ended the wait. If both happen at once the try counts, and the place goes to the next caller.
func (p *Pool) takeOrTry(ctx context.Context, try func() (over bool)) (s *place, tried bool, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	polled := make(chan bool, 1)
	poller := time.AfterFunc(timing.Jittered(firstPoll), func() {
		over := p.poll(ctx, try)
		stop()
		polled <- over
	})
	s, err = p.take(ctx)
	stop()
	if poller.Stop() || !<-polled {
		return s, false, err
	}
	if err == nil {
		giveBack(s)
	}
	return nil, true, nil
}

// poll calls try, and again after each of its pauses, until try reports that the wait is over, or until ends.
func (p *Pool) poll(until context.Context, try func() (over bool)) (over bool) {
	for pause := firstPoll; until.Err() == nil; timing.Sleep(until, p.together(timing.Jittered(pause))) {
		if try() {
			return true
		}
		pause = min(2*pause, lastPoll)
	}
	return false
}

// together lengthens a long pause, so that pollers of this process try at the same moments, and share statements.
func (p *Pool) together(pause time.Duration) time.Duration {
	if pause < 4*pollTogether {
		return pause
	}
	end := time.Since(p.began) + pause
	return pause + (end + pollTogether - 1).Truncate(pollTogether) - end
}

const (
	firstPoll    = 20 * time.Millisecond
	lastPoll     = time.Second
	pollTogether = 50 * time.Millisecond
)
