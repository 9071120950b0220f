package mux

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// leave is for a caller whose context has ended. An op that has not been sent is dropped; for the answer to one that has
// been sent the caller waits a while.
func (s *Session) leave(ctx context.Context, o *op) error {
	s.mu.Lock()
	isCall := o.kind == call
	withdrawn := o.state == queued && o.kind != release
	if withdrawn {
		s.queue = slices.DeleteFunc(s.queue, func(other *op) bool { return other == o })
	}
	why := s.whySilentLocked()
	s.giveUpRightLocked(o)
	s.advanceLocked()
	s.mu.Unlock()
	switch {
	case withdrawn:
		if o.grant != nil {
			s.budget.giveBack(o.grant)
		}
		s.ops.Put(o)
		return NothingDone(ctx, why)
	case isCall:
		return noAnswer(ctx, errNoAnswer)
	}
	return s.awaitLast(ctx, o)
}

// giveUpRightLocked takes the right to send out of o's channel if it is there; o is not given it again. An answer stays.
func (s *Session) giveUpRightLocked(o *op) {
	o.gone = true
	for range len(o.wake) {
		select {
		case signal := <-o.wake:
			if signal == maySend {
				s.sending = false
			} else {
				o.wake <- haveAnswer
			}
		default: // its caller has just taken it
		}
	}
}

// awaitLast waits a while for the answer to what has been sent, and then leaves it to the session to give back what may come
// of it.
func (s *Session) awaitLast(ctx context.Context, o *op) error {
	timer := time.NewTimer(answerPatience)
	defer timer.Stop()
	select {
	case <-o.wake:
		return s.take(o)
	case <-timer.C:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if o.state == answered { // just then
		return o.err
	}
	return o.leaveBehindLocked(noAnswer(ctx, errNoAnswer))
}

// leaveBehindLocked marks o as abandoned, and returns the error for its caller.
func (o *op) leaveBehindLocked(err error) error {
	o.gone = true
	o.left = make(chan struct{})
	return &driver.UnsettledError{Err: err, Done: o.left}
}

// NothingDone is the error of a caller whose ctx has ended before the server did anything for it; why is what is wrong with
// the server, if anything is.
func NothingDone(ctx context.Context, why error) error {
	if why == nil || errors.Is(ctx.Err(), context.Canceled) {
		return context.Cause(ctx)
	}
	return noAnswer(ctx, why)
}

// whySilent says what is wrong with a server that has not answered; nil when it is only busy.
func (s *Session) whySilent() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.whySilentLocked()
}

// whySilentLocked is whySilent under mu.
func (s *Session) whySilentLocked() error {
	if len(s.batches) > 0 && s.lease.Now().Sub(s.batches[0].sentAt) >= answerPatience {
		return errNoAnswer
	}
	return nil
}
