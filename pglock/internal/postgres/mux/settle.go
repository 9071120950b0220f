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
	for i, o := range b.ops {
		if failure == nil {
			s.settleOpLocked(o, s.results[i])
		} else {
			s.settleFailedLocked(o, s.results[i], failure)
		}
	}
	return nil
}

// settleOpLocked settles one op; done says whether it was carried out.
func (s *Session) settleOpLocked(o *op, done bool) {
	switch {
	case o.kind == release && done:
		s.endLocked(o, nil)
	case o.kind == release:
		s.endLocked(o, wire.LostBecause(errNotHeld))
	case done:
		s.gotLocked(o)
	default:
		s.endLocked(o, driver.ErrNotAcquired)
	}
}

// settleFailedLocked settles one op of a statement that failed; held says whether the session holds its key now.
func (s *Session) settleFailedLocked(o *op, held bool, failure error) {
	switch {
	case o.kind == release && !held: // done before the failure
		s.endLocked(o, nil)
	case o.kind == release:
		s.queueLocked(o)
	case held:
		s.gotLocked(o)
	case !o.retried && o.left == nil && !s.refusing && sqlstate.Of(failure) == sqlstate.QueryCanceled: // pg_cancel_backend
		o.retried = true
		s.queueLocked(o)
	default:
		s.endLocked(o, sqlstate.ExplainOwn(failure))
	}
}

// gotLocked gives the op's caller the grant. If the caller has left, it releases the key.
func (s *Session) gotLocked(o *op) {
	if o.left == nil {
		s.addLocked(o.grant)
		s.finishLocked(o, nil)
		return
	}
	o.kind = release
	s.queueLocked(o)
}

// endLocked answers an op whose key the session does not hold any more, or never did.
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
	o := s.newOp(context.Background(), call, nil)
	o.query = q
	err := s.do(o)
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
