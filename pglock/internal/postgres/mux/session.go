package mux

import (
	"cmp"
	"context"
	"log/slog"
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
	conn   *wire.Conn
	lease  *lease.Lease
	budget *Budget
	log    *slog.Logger
	onEnd  func(*Session)
	load   atomic.Int32 // callers

	mu          sync.Mutex
	queue       []*op
	batches     []*batch // on their way, in order
	sending     bool     // the right to send is taken
	reading     bool     // the right to read is taken
	reader      *op      // its caller has the right to read; nil: a goroutine
	interrupted bool     // the reader has been interrupted
	idleTimed   bool     // idleTimer runs
	suspended   bool     // the lease is not enforced, since the session waits
	crowd       int      // ops in the last batch that was answered
	roundTrip   time.Duration
	lastSent    driver.Instant
	grants      []*Grant // each at its place
	refusing    bool     // it refuses tries
	cause       error    // why the session has ended; nil while it has not
	timer       *time.Timer
	idleTimer   *time.Timer
	patrolTimer *time.Timer
	patrols     bool   // patrolTimer runs
	round       uint32 // of patrol
	ops         sync.Pool
	woken       wakeList

	answer   wire.Answer // guarded by the right to read, not by mu
	results  []bool
	identity txguard.Identity
}

// NewSession makes a session of a connection. onEnd is called once, when it has ended and the holders of its locks
// have been notified.
func NewSession(conn *wire.Conn, l *lease.Lease, budget *Budget, log *slog.Logger, onEnd func(*Session)) *Session {
	s := &Session{conn: conn, lease: l, budget: budget, log: log, onEnd: onEnd, roundTrip: time.Hour, lastSent: l.Now()}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer = time.AfterFunc(s.nextLook(), s.keepLease)
	s.idleTimer, s.idleTimed = time.AfterFunc(idleAfter, s.readIdle), true
	s.patrolTimer = time.AfterFunc(patrolEvery, s.patrol)
	s.patrolTimer.Stop()
	return s
}

// do carries out o, and returns its error; the answer to a call is in o.query.
func (s *Session) do(ctx context.Context, o *op) error {
	if o.kind != call {
		s.load.Add(1)
		defer s.load.Add(-1)
	}
	o.watches = o.watches || ctx.Done() != nil
	s.mu.Lock()
	if err := s.enqueueLocked(o); err != nil {
		s.mu.Unlock()
		if o.kind == try { // for a release the end of the session has done this
			s.budget.giveBack(o.grant)
		}
		return err
	}
	s.advanceLocked()
	s.mu.Unlock()
	return s.await(ctx, o)
}

// enqueueLocked queues o, or returns why the session no longer accepts it. A release removes its grant from the session,
// so the grant's owner is not notified if the session ends later.
func (s *Session) enqueueLocked(o *op) error {
	switch {
	case o.kind == release && !s.removeLocked(o.grant):
		return wire.LostBecause(cmp.Or(s.cause, errNotHeld))
	case s.cause != nil:
		return errEnded{s.cause}
	case s.refusing && o.kind == try:
		return driver.ErrClosed
	}
	if o.kind == release && len(s.batches) > 0 {
		o.since = s.lease.Now()
	}
	s.queueLocked(o)
	return nil
}

// queueLocked queues o, and starts the patrol.
func (s *Session) queueLocked(o *op) {
	o.state, o.round = queued, s.round
	s.queue = append(s.queue, o)
	if o.watches && !s.patrols {
		s.patrols = true
		s.patrolTimer.Reset(patrolEvery)
	}
}

// addLocked adds a grant to those of the session.
func (s *Session) addLocked(g *Grant) {
	g.session, g.place = s, int32(len(s.grants))
	s.grants = append(s.grants, g)
}

// removeLocked removes a grant, and reports whether it was there. The last one takes its place.
func (s *Session) removeLocked(g *Grant) bool {
	end := len(s.grants) - 1
	if int(g.place) > end || s.grants[g.place] != g {
		return false
	}
	last := s.grants[end]
	s.grants[g.place], last.place = last, g.place
	s.grants[end] = nil
	s.grants = s.grants[:end]
	return true
}

// await waits for the answer to o, and sends when it is given the right to.
func (s *Session) await(ctx context.Context, o *op) error {
	var done <-chan struct{} // nil until the session is slow: a channel alone is cheaper than a select
	for {
		var why signal
		if done == nil {
			why = <-o.wake
		} else {
			select {
			case why = <-o.wake:
			case <-done:
				return s.leave(ctx, o)
			}
		}
		switch why {
		case haveAnswer:
			return s.result(o)
		case maySend:
			s.lead(o)
		case isSlow:
			done = ctx.Done()
		}
	}
}

// patrol tells the callers that have waited for a whole round to watch their contexts, and interrupts the one that reads. A
// batch that is about to be reconciled, or just was, is nowhere to be found; what queues the question, or its ops again,
// starts the patrol again.
func (s *Session) patrol() {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := s.tellLocked(s.queue)
	for _, b := range s.batches {
		left = s.tellLocked(b.ops) || left
	}
	s.round++
	if s.patrols = left && s.cause == nil; s.patrols {
		s.patrolTimer.Reset(patrolEvery)
	}
}

// tellLocked is patrol for some ops, and reports whether some callers are still to be told.
func (s *Session) tellLocked(waiting []*op) (left bool) {
	for _, o := range waiting {
		if o.query != nil && o.query.about != nil {
			left = s.tellLocked(o.query.about.ops) || left
		}
		switch {
		case !o.watches || o.told || o.gone || o.state == answered:
		case o.round == s.round:
			left = true
		default:
			o.told = true
			o.wake <- isSlow
			s.interruptLocked(o)
		}
	}
	return left
}

// result returns the answer, and keeps the op for another caller unless something remains to be done for it.
func (s *Session) result(o *op) error {
	err := o.err
	if o.left == nil {
		s.ops.Put(o)
	}
	return err
}

// windowLocked reports whether one more batch may be sent now.
func (s *Session) windowLocked() bool {
	return len(s.batches) == 0 || s.farLocked() && len(s.batches) < farWindow
}

// farLocked reports whether the server is so far that waiting for an answer costs more than sharing a statement saves.
func (s *Session) farLocked() bool { return s.roundTrip > far }

// advanceLocked gives away the rights that are free and usable. See the package comment.
func (s *Session) advanceLocked() {
	if s.cause != nil {
		return
	}
	if !s.reading && len(s.batches) > 0 {
		s.reading = true
		go s.receive()
	}
	if !s.sending && len(s.queue) > 0 && s.windowLocked() {
		s.sending = true
		if i := slices.IndexFunc(s.queue, func(o *op) bool { return !o.gone }); i >= 0 {
			s.queue[i].wake <- maySend
		} else {
			go s.lead(nil)
		}
	}
	if !s.reading && !s.sending && !s.idleTimed {
		s.idleTimed = true
		s.idleTimer.Reset(idleAfter)
	}
}

// readIdle starts a goroutine that reads what the server says to the idle session.
func (s *Session) readIdle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idleTimed = false
	if s.cause == nil && !s.reading && !s.sending {
		s.reading = true
		go s.receive()
	}
}

// lead sends one batch, and reads its answer if the caller's op is in it and the right to read is free. The caller has the
// right to send; o is nil for a goroutine.
func (s *Session) lead(o *op) {
	s.mu.Lock()
	s.gatherLocked()
	b := s.nextBatchLocked()
	// A caller that has been told to watch its context is not interrupted again, so a goroutine reads for it.
	reads := b != nil && o != nil && o.state == sent && !o.told && !s.reading && s.conn.Interruptible
	if reads {
		s.reading, s.reader = true, o
	}
	s.advanceLocked()
	s.mu.Unlock()
	var err error
	if b != nil {
		err = s.send(b)
	}
	s.mu.Lock()
	s.sending = false
	s.advanceLocked()
	s.mu.Unlock()
	switch {
	case err != nil:
		s.End(s.lease.Reason(), err)
	case reads:
		s.receive()
	}
}

// gatherLocked lets the callers that have just been answered run first, since they are likely to ask for more. A round of
// the scheduler runs only some of them, so it goes on while the queue grows, up to the length of the last batch. It unlocks
// mu meanwhile; no other caller sends, since its caller has the right to.
func (s *Session) gatherLocked() {
	for before := -1; before < len(s.queue) && len(s.queue) < s.crowd; {
		before = len(s.queue)
		s.mu.Unlock()
		runtime.Gosched()
		s.mu.Lock()
	}
}

// nextBatchLocked makes a batch of the queue: of the first op, if that is a call, or else of the tries and releases that one
// statement may carry. It returns nil if nothing is queued or the session has ended.
func (s *Session) nextBatchLocked() *batch {
	if s.cause != nil || len(s.queue) == 0 {
		return nil
	}
	b := batches.Get().(*batch)
	if o := s.queue[0]; o.kind == call {
		b.add(o)
	} else {
		b.addAll(s.queue)
	}
	b.fill()
	s.queue = slices.DeleteFunc(s.queue, func(o *op) bool { return o.state != queued })
	b.sentAt = s.lease.Now() // a little early is on the safe side
	s.lastSent = b.sentAt
	for _, o := range b.ops {
		o.since = cmp.Or(o.since, b.sentAt)
	}
	s.batches = append(s.batches, b)
	return b
}

func (b *batch) add(o *op) {
	o.state = sent
	b.ops = append(b.ops, o)
}

// addAll adds the releases and then the tries, at most maxOps together.
func (b *batch) addAll(queue []*op) {
	for _, wanted := range [...]kind{release, try} {
		for _, o := range queue {
			if o.kind == wanted && len(b.ops) < maxOps {
				b.add(o)
			}
		}
	}
}

// fill copies what the statement must say, so that it can be written even while the end of the session answers the ops.
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

// receive reads an answer, settles its batch, and gives the right to read back.
func (s *Session) receive() {
	err := s.conn.Receive(&s.answer)
	s.mu.Lock()
	interrupted := s.interrupted && wire.Interrupted(err)
	if s.interrupted {
		s.interrupted = false
		s.conn.Resume()
	}
	s.reader = nil
	if err == nil {
		err = s.settleLocked()
	}
	if err != nil && !interrupted {
		// The right is kept, so that nothing is read after this.
		s.mu.Unlock()
		if said := s.answer.Error(); said != nil { // the server said why before it closed the connection
			err = said
		}
		s.End(s.lease.Reason(), err)
		return
	}
	s.reading = false
	s.advanceLocked()
	s.unlock()
}

// interruptLocked makes o's caller stop if it is reading. A goroutine continues.
func (s *Session) interruptLocked(o *op) {
	if s.reader == o {
		s.interrupted = true
		s.conn.Interrupt()
	}
}

const (
	maxOps         = wire.SegmentKeys // in one statement; measured: two such statements cost less than a larger one
	farWindow      = 8
	far            = 250 * time.Microsecond
	answerPatience = time.Second
	idleAfter      = time.Millisecond // of idleness
	patrolEvery    = 4 * time.Millisecond
)
