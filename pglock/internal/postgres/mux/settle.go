package mux

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/wire"
)

// settleLocked settles the first batch with its answer. An error says that the session cannot be trusted any more.
func (s *Session) settleLocked() error {
	if s.cause != nil {
		return s.cause
	}
	if len(s.batches) == 0 {
		return fmt.Errorf("the server answered a statement that was not sent (%v)", s.answer.Error())
	}
	b := s.batches[0]
	failure := s.answer.Error()
	if b.query == nil && failure == nil {
		if err := s.settleAllLocked(b, &s.answer, nil); err != nil {
			return err // the end of the session answers the callers
		}
	}
	s.batches = slices.Delete(s.batches, 0, 1)
	s.lease.Renew(b.sentAt)
	s.roundTrip = min(s.roundTrip, s.lease.Now().Sub(b.sentAt))
	s.crowd = len(b.ops) + len(s.queue)
	switch {
	case b.query != nil:
		b.query.answer, s.answer = s.answer, wire.Answer{}
		s.finishLocked(b.ops[0], failure)
	case failure != nil:
		s.answer.Reset()
		go s.reconcile(b, failure)
		return nil
	default:
		s.answer.Reset()
	}
	b.recycle()
	return nil
}

// settleAllLocked settles the ops of a batch with an answer that has one boolean for each key: whether the statement was
// carried out for it or, if the statement failed, whether the session holds it.
func (s *Session) settleAllLocked(b *batch, a *wire.Answer, failure error) error {
	var err error
	if s.results, err = a.Bools(s.results, len(b.Numbers)); err != nil {
		return err
	}
	results := s.results
	for _, o := range b.ops {
		n := len(o.grant.Keys())
		if failure == nil {
			s.settleOpLocked(o, results[:n])
		} else {
			s.settleFailedLocked(o, results[:n], failure)
		}
		results = results[n:]
	}
	return nil
}

// settleOpLocked settles one op; done[i] says whether its key i was processed.
func (s *Session) settleOpLocked(o *op, done []bool) {
	all, some := !slices.Contains(done, false), slices.Contains(done, true)
	switch {
	case o.kind == release && all, o.kind == release && o.failure != nil:
		s.endLocked(o, o.failure)
	case o.kind == release:
		s.endLocked(o, wire.LostBecause(errNotHeld))
	case all && o.left == nil:
		s.grantLocked(o)
	case some: // it got only some of its keys, or its caller has left
		s.takeBackLocked(o, done, driver.ErrNotAcquired)
	default:
		s.endLocked(o, driver.ErrNotAcquired)
	}
}

// settleFailedLocked settles one op of a statement that failed; held says which of its keys the session holds now.
func (s *Session) settleFailedLocked(o *op, held []bool, failure error) {
	all, some := !slices.Contains(held, false), slices.Contains(held, true)
	switch {
	case o.kind == release && !some: // done before the failure
		s.endLocked(o, o.failure)
	case o.kind == release: // not done, or only in part: repeat it for the keys that are left
		o.grant.reduce(held)
		s.queueLocked(o)
	case all && o.left == nil:
		s.grantLocked(o)
	case some:
		s.takeBackLocked(o, held, wire.Classify(failure))
	case !o.retried && o.left == nil && !s.refusing && sqlstate.Of(failure) == sqlstate.QueryCanceled: // pg_cancel_backend
		o.retried = true
		s.queueLocked(o)
	default:
		s.endLocked(o, wire.Classify(failure))
	}
}

// grantLocked gives the op's caller the grant.
func (s *Session) grantLocked(o *op) {
	s.addLocked(o.grant)
	s.finishLocked(o, nil)
}

// takeBackLocked turns a try into a release of the keys that it got but must not keep. After that its caller, unless it
// has left, gets the error why.
func (s *Session) takeBackLocked(o *op, got []bool, why error) {
	o.grant.reduce(got)
	o.kind, o.failure = release, why
	s.queueLocked(o)
}

// endLocked answers an op whose keys the session does not hold any more, or never did.
func (s *Session) endLocked(o *op, err error) {
	s.budget.giveBack(o.grant)
	s.finishLocked(o, err)
}

// finishLocked answers an op. Its caller, unless it has left, is woken when the mutex has been unlocked.
func (s *Session) finishLocked(o *op, err error) {
	o.state = answered
	if o.left != nil {
		close(o.left)
		return
	}
	o.err = err
	s.woken = append(s.woken, o)
}

// reconcile settles a batch whose statement failed, perhaps half-way: it asks which of the keys the session holds. Only the
// callers of this batch wait for that.
func (s *Session) reconcile(b *batch, failure error) {
	q := &query{about: b}
	o := s.newOp(call, nil)
	o.query = q
	err := s.do(context.Background(), o)
	s.mu.Lock()
	if err = cmp.Or(err, s.cause); err == nil {
		err = s.settleAllLocked(b, &q.answer, failure)
	}
	s.unlock()
	if err == nil {
		return
	}
	s.End(s.lease.Reason(), err)
	s.mu.Lock()
	s.abandonLocked(b.ops)
	s.unlock()
}

var errNotHeld = errors.New("the server session did not hold the key")
