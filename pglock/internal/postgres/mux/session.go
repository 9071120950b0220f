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
)

// Session is one connection that holds locks, and the lease on them. See the package comment for how it works.
type Session struct {
	conn   *wire.Conn
	lease  *lease.Lease
	budget *Budget
	log    *slog.Logger
	onEnd  func(*Session)
	load   atomic.Int32 // callers

	mu        sync.Mutex
	queue     []*op
	batches   []*batch // on their way, in order
	sending   bool     // a goroutine sends
	reading   bool     // a goroutine or a caller reads
	reader    *op      // its caller reads; nil if another goroutine does
	idleTimed bool     // idle runs
	looksSoon bool     // the timer's next run is within waitEvery
	suspended bool     // the lease is not enforced, since the session waits
	crowd     int      // ops in the last batch that was answered, and those queued then
	roundTrip time.Duration
	lastSent  driver.Instant
	grants    []*Grant // each at its place
	free      func()   // called when it does not hold the grant any more that it carries; nil if it holds those of many
	refusing  bool     // it refuses tries
	cause     error    // why the session has ended; nil while it has not
	timer     *time.Timer
	idle      *time.Timer
	ops       sync.Pool
	woken     []*op // whose answers have come, and whose callers must be woken

	answer  wire.Answer // of the one who reads
	results []bool
}

// NewSession makes a session of a connection. onEnd is called once, when it has ended and the holders of its locks
// have been notified.
func NewSession(conn *wire.Conn, l *lease.Lease, budget *Budget, log *slog.Logger, onEnd func(*Session)) *Session {
	s := &Session{conn: conn, lease: l, budget: budget, log: log, onEnd: onEnd, roundTrip: time.Hour, lastSent: l.Now()}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer = time.AfterFunc(s.nextLook(), s.keepLease)
	s.idle, s.idleTimed = time.AfterFunc(idleAfter, s.readIdle), true
	return s
}

// do carries out o, and returns its error; the answer to a call is in o.query.
func (s *Session) do(o *op) error {
	if o.kind != call {
		s.load.Add(1)
		defer s.load.Add(-1)
	}
	s.mu.Lock()
	if err := s.enqueueLocked(o); err != nil {
		s.mu.Unlock()
		if o.kind == try { // for a release the end of the session has done this
			s.budget.giveBack(o.grant)
		}
		return err
	}
	s.sendLocked()
	reads := s.mayReadLocked(o)
	s.mu.Unlock()
	if reads {
		s.readOwn()
	}
	if <-o.wake {
		return s.result(o)
	}
	return s.leave(o)
}

// doAll tries or releases grants for one caller. They are queued together, and so share statements.
func (s *Session) doAll(ctx context.Context, what kind, grants []*Grant) []error {
	ops, errs := make([]*op, len(grants)), make([]error, len(grants))
	s.load.Add(int32(len(grants)))
	defer s.load.Add(-int32(len(grants)))
	s.mu.Lock()
	for i, g := range grants {
		ops[i] = s.newOp(ctx, what, g)
		if what == try {
			errs[i] = s.budget.reserve(g)
		}
		if errs[i] == nil {
			errs[i] = s.enqueueLocked(ops[i])
		}
		if errs[i] != nil && what == try {
			s.budget.giveBack(g)
		}
	}
	s.sendLocked()
	reads := s.mayReadLocked(ops[0])
	s.mu.Unlock()
	if reads {
		s.readOwn()
	}
	var leaving sync.WaitGroup
	for i, o := range ops {
		switch {
		case errs[i] != nil:
		case <-o.wake:
			errs[i] = s.result(o)
		default:
			leaving.Go(func() { errs[i] = s.leave(o) })
		}
	}
	leaving.Wait()
	return errs
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
	case o.kind == release:
		o.since = s.lease.Now()
	}
	s.queueLocked(o)
	return nil
}

func (s *Session) queueLocked(o *op) {
	o.state = queued
	s.queue = append(s.queue, o)
	if !s.looksSoon {
		s.looksSoon = true
		s.timer.Reset(s.nextLook())
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

// result returns the answer, and keeps the op for another caller unless something remains to be done for it.
func (s *Session) result(o *op) error {
	err := o.err
	if o.left == nil {
		s.ops.Put(o)
	}
	return err
}

// sendLocked sends what is queued, batch after batch while the window is open, unless another goroutine does. It unlocks mu
// meanwhile.
func (s *Session) sendLocked() {
	for !s.sending && s.cause == nil && len(s.queue) > 0 && s.windowLocked() {
		s.sending = true
		s.gatherLocked()
		if b := s.nextBatchLocked(); b != nil {
			s.mu.Unlock()
			if err := s.write(b); err != nil {
				s.End(s.lease.Reason(), err)
			}
			s.mu.Lock()
		}
		s.sending = false
	}
}

// windowLocked reports whether one more batch may be sent now. If the server is far, waiting for an answer costs more than
// sharing a statement saves.
func (s *Session) windowLocked() bool {
	return len(s.batches) == 0 || s.roundTrip > far && len(s.batches) < farWindow
}

// gatherLocked lets the callers that have just been answered run first, since they are likely to ask for more. A round of
// the scheduler runs only some of them, so it goes on while the queue grows, until they and those queued before are all there:
// else two groups of callers would take turns for ever, in statements of half the size. It unlocks mu meanwhile.
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
	s.batches = append(s.batches, b)
	return b
}

func (b *batch) add(o *op) {
	o.state = sent
	b.ops = append(b.ops, o)
}

// addAll adds the releases and then the tries that fit into one statement.
func (b *batch) addAll(queue []*op) {
	most := wire.PlainKeys
	if slices.ContainsFunc(queue, func(o *op) bool { return o.grant != nil && o.grant.Operation(false) != 0 }) {
		most = wire.MixedKeys
	}
	for _, wanted := range [...]kind{release, try} {
		for _, o := range queue {
			if o.kind == wanted && len(b.ops) < most {
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
		b.Add(o.grant.Operation(o.kind == release), o.grant.key.Number)
	}
}

// write writes the statement of a batch.
func (s *Session) write(b *batch) error {
	switch q := b.query; {
	case q == nil:
		return s.conn.SendBatch(&b.Batch)
	case q.about != nil:
		return s.conn.SendQuestion(&q.about.Batch)
	default:
		return s.conn.SendQuery(q.sql, q.args...)
	}
}

// mayReadLocked sees to it that the answers to what has been sent are read: by o's caller, if it reports true, since that saves
// waking it; or else by a goroutine. The caller reads if no answer but its own is awaited, and its wait has not been ended: it would
// not be interrupted again.
func (s *Session) mayReadLocked(o *op) bool {
	if s.reading || s.sending || s.cause != nil || len(s.batches) == 0 {
		return false
	}
	s.reading = true
	if o != nil && o.state == sent && !o.told && o.left == nil && len(s.batches) == 1 && s.conn.Interruptible {
		s.reader = o
		return true
	}
	go s.read()
	return false
}

// readOwn reads the answer for the caller that may read. If there is more to read, or it is interrupted, a goroutine goes on.
func (s *Session) readOwn() {
	if s.receive() {
		go s.read()
	}
}

// read reads answers until callers are alone again.
func (s *Session) read() {
	for s.receive() {
	}
}

// readIdle reads what the server says to an idle session, such as its end.
func (s *Session) readIdle() {
	s.mu.Lock()
	s.idleTimed = false
	reads := !s.reading && s.cause == nil
	s.reading = s.reading || reads
	s.mu.Unlock()
	if reads {
		s.read()
	}
}

// receive reads an answer, settles its batch, and reports whether to read on: another is awaited, or soon will be, since this one
// was for several callers. If the session has ended nothing is read any more.
func (s *Session) receive() (more bool) {
	err := s.conn.Receive(&s.answer)
	s.mu.Lock()
	s.reader = nil
	if wire.Interrupted(err) {
		s.conn.Resume()
		s.mu.Unlock()
		return true
	}
	if err == nil {
		err = s.settleLocked()
	}
	if err != nil {
		s.mu.Unlock()
		if said := s.answer.Error(); said != nil { // the server said why before it closed the connection
			err = said
		}
		s.End(s.lease.Reason(), err)
		return false
	}
	s.advanceLocked()
	if s.reading = len(s.batches) > 0 || s.crowd > 1; !s.reading && !s.idleTimed {
		s.idleTimed = true
		s.idle.Reset(idleAfter)
	}
	more = s.reading
	s.mu.Unlock()
	return more
}

// interruptLocked makes o's caller stop if it is reading.
func (s *Session) interruptLocked(o *op) {
	if s.reader == o {
		s.conn.Interrupt()
	}
}

// advanceLocked wakes the callers whose answers have come, and sends what is queued. It unlocks mu meanwhile, and no other goroutine
// sends then, unless one did before, which looks at the queue again.
func (s *Session) advanceLocked() {
	woken, sends := s.woken, !s.sending
	s.woken, s.sending = nil, true
	s.mu.Unlock()
	for _, o := range woken {
		o.wake <- true
	}
	s.mu.Lock()
	if s.woken == nil {
		s.woken = woken[:0]
	}
	if sends {
		s.sending = false
		s.sendLocked()
	}
}

// unlock is advanceLocked before mu is unlocked.
func (s *Session) unlock() {
	s.advanceLocked()
	s.mayReadLocked(nil)
	s.mu.Unlock()
}

const (
	farWindow      = 8
	far            = 250 * time.Microsecond
	answerPatience = time.Second
	idleAfter      = time.Millisecond
)
