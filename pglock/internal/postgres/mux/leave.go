package mux

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// leave ends the wait of a caller whose context has ended. It drops an op that has not been sent, and does not wait for the
// answer to a call that has been sent. For the answer to a try that has been sent it waits a while longer.
func (s *Session) leave(o *op) error {
	ctx := o.ctx // o is for the next caller when it has been withdrawn
	s.mu.Lock()
	isCall := o.kind == call
	withdrawn := o.state == queued && o.kind != release
	if withdrawn {
		s.queue = slices.DeleteFunc(s.queue, func(other *op) bool { return other == o })
	}
	why := s.whySilentLocked()
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

// awaitLast waits a while for the answer to an op that has been sent. If none comes, the session releases whatever the op
// may still be granted.
func (s *Session) awaitLast(ctx context.Context, o *op) error {
	timer := time.NewTimer(answerPatience)
	defer timer.Stop()
	select {
	case <-o.wake:
		return s.result(o)
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
	o.left = make(chan struct{})
	return &driver.UnsettledError{Err: err, Done: o.left}
}

// NothingDone returns the error of a caller whose ctx ended before the server did anything for it. why says what is wrong
// with the server; it is nil if nothing is known to be wrong.
func NothingDone(ctx context.Context, why error) error {
	if why == nil || errors.Is(ctx.Err(), context.Canceled) {
		return context.Cause(ctx)
	}
	return noAnswer(ctx, why)
}

// whySilent returns an error if the server has owed an answer for answerPatience, and nil if it may just be busy.
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
