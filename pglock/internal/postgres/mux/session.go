package mux

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/lease"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/wire"
	"github.com/pglock-toolkit/pglock/pglock/internal/txguard"
)

// Session is one connection that holds locks, and the lease on them. See the package comment for how it works.
type Session struct {
	conn    *wire.Conn
	lease   *lease.Lease
	budget  *Budget
	log     *slog.Logger
	onEnd   func(*Session)
	load    atomic.Int32 // callers
	comment atomic.Value // a string

	mu        sync.Mutex
	queue     []*op
	batches   []*batch // on their way, in order
	sending   bool     // the right to send is taken,
	reading   bool     // or to read
	reader    *op      // its caller reads; nil if a goroutine does
	stopping  bool     // the reader's context has ended, and the read deadline is in the past
	armed     bool     // both rights are free, and the connection is watched
	suspended bool     // the lease is not enforced, since the session waits
	crowd     int      // ops in the last batch that was answered
	roundTrip time.Duration
	lastSent  driver.Instant
	grants    grantList
	refusing  bool  // tries
	cause     error // why the session has ended
	timer     *time.Timer
	spare     []*batch
	ops       sync.Pool
	woken     []*op // whose answers have come

	answer   wire.Answer // used by the goroutine that reads
	results  []bool
	identity txguard.Identity
}

// NewSession makes a session of a connection. onEnd is called once, when it has ended and the holders of its locks
// have been notified.
func NewSession(conn *wire.Conn, l *lease.Lease, budget *Budget, log *slog.Logger, onEnd func(*Session)) *Session {
	s := &Session{conn: conn, lease: l, budget: budget, log: log, onEnd: onEnd, roundTrip: time.Hour, lastSent: l.Now()}
	s.SetComment("")
	conn.Watch(s.readable)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer = time.AfterFunc(s.nextLook(), s.keep)
	s.advanceLocked()
	return s
}

// do has o carried out, and returns its answer; for a call that is in o.query.
func (s *Session) do(ctx context.Context, o *op) error {
	if o.kind != call {
		s.load.Add(1)
		defer s.load.Add(-1)
	}
	s.mu.Lock()
	if err := s.enqueueLocked(o); err != nil {
		s.mu.Unlock()
		if o.kind == try { // what a release gives back the end of the session has
			s.budget.giveBack(o.grant)
		}
		return err
	}
	leads := !s.sending && s.windowLocked()
	if leads {
		s.takeOverLocked()
		s.sending = true
	}
	s.mu.Unlock()
	if leads {
		s.lead(ctx, o)
	}
	return s.await(ctx, o)
}

// enqueueLocked queues o unless the session does not take it any more. A grant leaves the books with its release, so the end
// of the session is not reported to it from then on.
func (s *Session) enqueueLocked(o *op) error {
	switch {
	case o.kind == release && !s.grants.remove(o.grant):
		return wire.LostBecause(cmp.Or(s.cause, errNotHeld))
	case s.cause != nil:
		return errEnded{s.cause}
	case s.refusing && o.kind == try:
		return driver.ErrClosed
	}
	s.queue = append(s.queue, o)
	return nil
}

// await waits for the answer to o, and uses the rights that come before.
func (s *Session) await(ctx context.Context, o *op) error {
	done := ctx.Done()
	for {
		select {
		case signal := <-o.wake:
			switch signal {
			case maySend:
				s.lead(ctx, o)
			case mayRead:
				s.read(ctx, o)
			default:
				return s.take(o)
			}
		case <-done:
			return s.leave(ctx, o)
		}
	}
}

// take returns the answer, and keeps the op for another caller unless something remains to be done for it.
func (s *Session) take(o *op) error {
	err := o.err
	if o.left == nil {
		s.ops.Put(o)
	}
	return err
}

// windowLocked reports whether one more batch may be on its way.
func (s *Session) windowLocked() bool {
	return len(s.batches) == 0 || s.farLocked() && len(s.batches) < farWindow
}

// farLocked reports whether the server is so far that waiting for an answer costs more than sharing a statement saves.
func (s *Session) farLocked() bool { return s.roundTrip > far }

// advanceLocked gives away the rights that are free and usable; if there is nothing to do the connection is watched.
// See the package comment.
func (s *Session) advanceLocked() {
	if s.cause != nil {
		return
	}
	if !s.reading && len(s.batches) > 0 {
		s.reading = true
		if s.reader = s.batches[0].leader; s.reader != nil {
			s.reader.wake <- mayRead
		} else {
			go s.read(context.Background(), nil)
		}
	}
	if !s.sending && len(s.queue) > 0 && s.windowLocked() {
		s.takeOverLocked()
		s.sending = true
		if i := slices.IndexFunc(s.queue, (*op).waitsLocked); i >= 0 {
			s.queue[i].wake <- maySend
		} else {
			go s.lead(context.Background(), nil)
		}
	}
	if !s.sending && !s.reading && !s.armed {
		s.restLocked()
	}
}

// lead sends one batch, and reads if the right to read is free. The caller has the right to send; o is nil for a
// goroutine.
func (s *Session) lead(ctx context.Context, o *op) {
	s.mu.Lock()
	if s.crowd > 1 && len(s.queue) < s.crowd && !s.farLocked() {
		// Let those run who have just been answered: they are likely to ask for more.
		s.mu.Unlock()
		runtime.Gosched()
		s.mu.Lock()
	}
	b := s.takeLocked(o)
	s.mu.Unlock()
	var err error
	if b != nil {
		err = s.send(b)
	}
	s.mu.Lock()
	s.sending = false
	reads := s.cause == nil && !s.reading && len(s.batches) > 0 && s.batches[0] == b
	if reads {
		s.reading, s.reader = true, o
	}
	s.advanceLocked()
	s.mu.Unlock()
	if err != nil {
		s.End(s.lease.Reason(), err)
	}
	if reads {
		s.read(ctx, o)
	}
}

// takeLocked makes a batch of what is queued: of o or the first op, if that is a call, or else of all tries and releases
// that one statement should carry. It returns nil when the session has ended.
func (s *Session) takeLocked(o *op) *batch {
	if s.cause != nil || len(s.queue) == 0 {
		return nil
	}
	b := s.newBatch()
	b.leader = o
	if o == nil {
		o = s.queue[0]
	}
	if o.kind == call {
		b.take(o)
	} else {
		b.takeAll(s.queue)
	}
	b.fill()
	s.queue = slices.DeleteFunc(s.queue, func(o *op) bool { return o.state != queued })
	b.sentAt = s.lease.Now() // a little early is on the safe side
	s.lastSent = b.sentAt
	s.batches = append(s.batches, b)
	return b
}

func (s *Session) newBatch() *batch {
	if n := len(s.spare); n > 0 {
		b := s.spare[n-1]
		s.spare = s.spare[:n-1]
		return b
	}
	return &batch{}
}

func (b *batch) take(o *op) {
	o.state = sent
	b.ops = append(b.ops, o)
}

// takeAll takes the releases and then the tries, as far as one statement should carry them.
func (b *batch) takeAll(queue []*op) {
	for _, wanted := range [...]kind{release, try} {
		for _, o := range queue {
			if o.kind == wanted && len(b.ops) < maxOps {
				b.take(o)
			}
		}
	}
}

// fill notes what the statement is to say, so that it can be written while the end of the session answers the ops.
func (b *batch) fill() {
	if b.query = b.ops[0].query; b.query != nil {
		return
	}
	for _, o := range b.ops {
		for _, id := range o.grant.Keys() {
			b.Add(o.grant.Operation(id, o.kind == release), id.Number)
		}
	}
}

// send writes the statement of a batch.
func (s *Session) send(b *batch) error {
	switch q := b.query; {
	case q == nil:
		return s.conn.SendBatch(&b.Batch)
	case q.about != nil:
		return s.conn.SendQuestion(&q.about.Batch)
	default:
		return s.conn.SendQuery(q.sql, q.args...)
	}
}

// read reads the answer of the first batch and settles it. The caller has the right to read; o is nil for a goroutine.
//
// When o's caller should not read any more a goroutine goes on, with what has been read so far.
func (s *Session) read(ctx context.Context, o *op) {
	var stop func() bool
	if ctx.Done() != nil {
		stop = context.AfterFunc(ctx, func() { s.interrupt(o) })
	}
	err := s.conn.Receive(&s.answer)
	if stop != nil {
		stop()
	}
	s.mu.Lock()
	s.reader = nil
	if s.stopping {
		s.stopping = false
		_ = s.conn.SetReadDeadline(time.Time{}) // fails only on a closed socket
	}
	switch {
	case s.cause != nil:
		s.mu.Unlock()
		return
	case errors.Is(err, os.ErrDeadlineExceeded):
		s.mu.Unlock()
		go s.read(context.Background(), nil)
		return
	}
	if err == nil {
		err = s.settleLocked()
	}
	if err != nil { // keep the right to read, so that nothing is read after this
		s.mu.Unlock()
		if said := s.answer.Error(); said != nil { // before it closed the connection
			err = said
		}
		s.End(s.lease.Reason(), err)
		return
	}
	woken := s.woken
	s.woken = nil
	s.reading = false
	s.advanceLocked()
	s.mu.Unlock()
	for _, o := range woken {
		o.wake <- haveAnswer
	}
	s.mu.Lock()
	if s.woken == nil {
		clear(woken)
		s.woken = woken[:0]
	}
	s.mu.Unlock()
}

// interrupt makes o's caller stop reading, if it does.
func (s *Session) interrupt(o *op) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.interruptLocked(o)
}

func (s *Session) interruptLocked(o *op) {
	if s.reading && s.reader == o {
		s.stopping = true
		_ = s.conn.SetReadDeadline(longAgo) // fails only on a closed socket
	}
}

var longAgo = time.Unix(1, 0)

const (
	maxOps         = 1024 // in one statement
	farWindow      = 8
	far            = 250 * time.Microsecond
	answerPatience = time.Second
)
