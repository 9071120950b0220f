package postgres

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// mainSession is one connection that holds many locks, and the lease on them.
//
// One goroutine reads from it all the time, so that the end of the session is seen at once. Writing belongs to whoever
// made it busy, under lanes.mu: a caller that found it idle, the reader that goes on with what is queued, or the timer
// with a heartbeat. There is one statement at a time. The server ends a session that it has heard nothing from for the
// lease; its clock starts when it has answered a statement, so the session can be trusted until the sending of the last
// answered one plus the lease, less a margin.
type mainSession struct {
	wire
	lanes      *lanes
	socket     net.Conn
	pid        uint32
	guardPID   int32 // for the guard against proxies; 0 where one is allowed
	lockTable  int   // nominal size of the server's lock table
	lease      time.Duration
	readerDone chan struct{}
	identity   identity

	trustedUntil atomic.Int64 // a driver.Instant
	sentAt       atomic.Int64 // a driver.Instant
	sending      sync.Mutex   // a writer may still be returning when its answer is there
	answer       answer
	operations   []int16
	numbers      []int64
	results      []bool
	woken        []chan struct{} // callers whose asks have been answered

	// Under lanes.mu:
	busy        bool
	batch       []*ask // what the statement in flight is about, if it is no call
	reconciling bool   // the batch failed half way, and the statement in flight asks what is held
	failure     error  // why it failed
	call        *call  // the call in flight
	releases    []*ask // for the next statement
	calls       []*call
	grants      grantList
	cause       error // why the session has ended
	timer       *time.Timer
}

// call is a statement of its own kind on a main session.
type call struct {
	sql      string
	args     []string
	row      string
	some     bool
	err      error
	answered chan struct{} // nil for a heartbeat
}

// Names of the prepared statements.
const (
	stmtTry       = "pglock_try"
	stmtUnlock    = "pglock_unlock"
	stmtBatch     = "pglock_batch"
	stmtReconcile = "pglock_reconcile"
)

// openMain dials, sets up and prepares.
func openMain(ctx context.Context, b *Backend) (*mainSession, error) {
	dialled, err := open(ctx, b)
	if err != nil {
		return nil, err
	}
	for name, sql := range map[string]string{
		stmtTry: lockdb.TryOne, stmtUnlock: lockdb.UnlockOne, stmtBatch: lockdb.Batch, stmtReconcile: lockdb.Reconcile,
	} {
		if _, err := dialled.conn.PgConn().Prepare(ctx, name, sql, nil); err != nil {
			dialled.hangUp(ctx)
			return nil, fmt.Errorf("%w: prepare a lock session: %w", driver.ErrUnavailable, err)
		}
	}
	hijacked, err := dialled.conn.PgConn().Hijack()
	if err != nil {
		dialled.hangUp(ctx)
		return nil, fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	}
	s := &mainSession{
		wire: wire{front: hijacked.Frontend}, lanes: &b.lanes, socket: hijacked.Conn, pid: hijacked.PID,
		guardPID: dialled.pid, lockTable: dialled.lockTable, lease: b.env.Lease, readerDone: make(chan struct{}),
	}
	s.trustedUntil.Store(dialled.trustedUntil.Load())
	return s, nil
}

// start begins to read, and to keep the lease.
func (s *mainSession) start() {
	s.lanes.mu.Lock()
	s.timer = time.AfterFunc(s.lease/5, s.keep)
	s.lanes.mu.Unlock()
	go s.read()
}

// read takes what the server sends until the session ends.
func (s *mainSession) read() {
	defer close(s.readerDone)
	for {
		message, err := s.front.Receive()
		if err != nil {
			if s.answer.err != nil { // what the server said before it closed the connection
				err = s.answer.err
			}
			s.end(s.reasonNow(), err)
			return
		}
		if s.answer.take(message) {
			s.answeredStatement()
			s.answer.reset()
		}
	}
}

// answeredStatement settles the statement in flight and goes on with the next.
func (s *mainSession) answeredStatement() {
	s.trustedUntil.Store(int64(driver.Instant(s.sentAt.Load()).Add(s.lease - s.lease/10)))
	l := s.lanes
	l.mu.Lock()
	if s.cause != nil {
		l.mu.Unlock()
		return
	}
	switch {
	case s.call != nil:
		s.settleCall()
	case !s.settleBatch():
		l.mu.Unlock()
		s.end(driver.ReasonSession, s.failure)
		return
	}
	l.mu.Unlock()
	s.proceed()
	// The server has work again; now those who wait for what it has done.
	for _, wake := range s.woken {
		wake <- struct{}{}
	}
	s.woken = s.woken[:0]
}

// proceed sends the next statement, or makes the session idle. The session is busy, and its caller's.
func (s *mainSession) proceed() {
	l := s.lanes
	l.mu.Lock()
	more := s.next()
	if !more && s.cause == nil {
		s.busy = false
		l.idle = append(l.idle, s)
	}
	l.mu.Unlock()
	if more {
		s.send()
	}
}

// next chooses the next statement. It runs under mu.
func (s *mainSession) next() bool {
	l := s.lanes
	switch {
	case s.cause != nil:
		return false
	case s.reconciling:
		return true
	case len(s.calls) > 0:
		s.call, s.calls = s.calls[0], s.calls[1:]
		return true
	}
	s.batch = s.take(s.batch[:0], &s.releases)
	s.batch = s.take(s.batch, &l.pending)
	return len(s.batch) > 0
}

// take moves asks from a queue to the batch, as many as fit.
func (s *mainSession) take(batch []*ask, queue *[]*ask) []*ask {
	n := min(len(*queue), maxAsks-len(batch))
	for _, a := range (*queue)[:n] {
		a.state = sent
		batch = append(batch, a)
	}
	rest := copy(*queue, (*queue)[n:])
	clear((*queue)[rest:])
	*queue = (*queue)[:rest]
	return batch
}

// send writes the statement that was chosen.
func (s *mainSession) send() {
	s.sending.Lock()
	s.sentAt.Store(int64(driver.Now()))
	err := s.write()
	s.sending.Unlock()
	if err != nil {
		s.end(s.reasonNow(), err)
	}
}

func (s *mainSession) write() error {
	switch {
	case s.call != nil:
		return s.sendQuery(literal(s.call.sql, s.call.args))
	case s.reconciling:
		return s.wire.batch(stmtReconcile, s.guardPID, s.operations, s.numbers)
	case len(s.batch) == 1 && s.batch[0].plainBigint():
		name := stmtTry
		if s.batch[0].release {
			name = stmtUnlock
		}
		return s.one(name, s.guardPID, s.batch[0].grant.numbers[0])
	}
	s.spread()
	return s.wire.batch(stmtBatch, s.guardPID, s.operations, s.numbers)
}

// spread lists what the batch is about, key by key.
func (s *mainSession) spread() {
	s.operations, s.numbers = s.operations[:0], s.numbers[:0]
	for _, a := range s.batch {
		for i, number := range a.grant.numbers {
			s.operations = append(s.operations, a.operation(i))
			s.numbers = append(s.numbers, number)
		}
	}
}

func (s *mainSession) settleCall() {
	c := s.call
	s.call = nil
	c.row, c.some = string(s.answer.row), s.answer.some
	if s.answer.err != nil {
		c.err = s.answer.err
	}
	if c.answered != nil {
		close(c.answered)
	}
}

// settleBatch answers the asks of the batch, and reports false when the session cannot be trusted any more.
//
// A statement over many keys that fails is half done: what it had locked and released before the failure stays so. Then
// nobody is answered before pg_locks has said what is held.
func (s *mainSession) settleBatch() bool {
	count := 0
	for _, a := range s.batch {
		count += len(a.grant.numbers)
	}
	switch {
	case s.answer.err != nil && s.reconciling, s.answer.err == nil && !s.answer.some:
		s.failure = refusal("pglock_pooler")
		if s.answer.err != nil {
			s.failure = s.answer.err
		}
		return false
	case s.answer.err != nil:
		s.spread()
		s.failure, s.reconciling = s.answer.err, true
		return true
	}
	var err error
	if s.results, err = parseBools(s.answer.row, s.results, count); err != nil {
		s.failure = err
		return false
	}
	results, reconciled := s.results, s.reconciling
	s.reconciling = false
	for _, a := range s.batch {
		n := len(a.grant.numbers)
		if reconciled {
			s.settleReconciled(a, results[:n])
		} else {
			s.settle(a, results[:n], nil)
		}
		results = results[n:]
	}
	clear(s.batch)
	s.batch = s.batch[:0]
	return true
}

// settle answers one ask and keeps the books of what the session holds.
func (s *mainSession) settle(a *ask, done []bool, err error) {
	g := a.grant
	if a.release {
		s.drop(g)
	} else {
		g.lane = s
	}
	wake := s.lanes.answer(a, done, err)
	if !a.release && len(g.numbers) > 0 {
		s.grants.add(g)
		s.lanes.settleShared(g, s)
	}
	if wake {
		s.woken = append(s.woken, a.wake)
	}
}

// drop takes a grant off the books, once. It runs under mu.
func (s *mainSession) drop(g *grant) {
	if s.grants.remove(g) {
		s.lanes.forgetGrant(g)
	}
}

// settleReconciled answers one ask of a batch that failed, given which of its keys are held now.
func (s *mainSession) settleReconciled(a *ask, held []bool) {
	all, any := true, false
	for _, h := range held {
		all, any = all && h, any || h
	}
	switch {
	case a.release && !any: // done before the failure
		for i := range held {
			held[i] = true
		}
		s.settle(a, held, nil)
	case !a.release && all:
		s.settle(a, held, nil)
	case a.release: // not done, or in part: once more, for what is left
		s.lanes.reduce(a.grant, held)
		s.releases = append(s.releases, a)
	case !any && !a.retried && a.state != abandoned && serverCode(s.failure) == codeQueryCanceled: // somebody's pg_cancel_backend
		a.retried, a.state = true, pending
		s.lanes.pending = append(s.lanes.pending, a)
	default:
		s.settle(a, held, classify(s.failure))
	}
}

// do runs a statement of its own kind, behind what is queued already.
func (s *mainSession) do(ctx context.Context, sql string, args ...string) (row string, some bool, err error) {
	c := &call{sql: sql, args: args, answered: make(chan struct{})}
	l := s.lanes
	l.mu.Lock()
	if s.cause != nil {
		l.mu.Unlock()
		return "", false, s.cause
	}
	if s.busy {
		s.calls = append(s.calls, c)
		l.mu.Unlock()
	} else {
		l.claim(s)
		s.call = c
		l.mu.Unlock()
		s.send()
	}
	select {
	case <-c.answered:
		return c.row, c.some, c.err
	case <-ctx.Done():
		return "", false, fmt.Errorf("%w: no answer: %w", driver.ErrUnavailable, context.Cause(ctx))
	}
}

// keep sends a heartbeat when nothing else was sent for a while, and ends the session when its time is over.
func (s *mainSession) keep() {
	l := s.lanes
	l.mu.Lock()
	if s.cause != nil {
		l.mu.Unlock()
		return
	}
	now, every := driver.Now(), s.lease/5
	left := s.deadline().Sub(now)
	if left <= 0 {
		l.mu.Unlock()
		s.end(driver.ReasonLease, nil)
		return
	}
	beat := !s.busy && now.Sub(driver.Instant(s.sentAt.Load())) >= every/2
	if beat {
		l.claim(s)
		s.call = &call{sql: lockdb.Heartbeat}
	}
	s.timer.Reset(min(every, left))
	l.mu.Unlock()
	if beat {
		s.send()
	}
}

// claim makes an idle session busy. It runs under mu.
func (l *lanes) claim(s *mainSession) {
	s.busy = true
	for i, other := range l.idle {
		if other == s {
			l.idle = append(l.idle[:i], l.idle[i+1:]...)
			return
		}
	}
}

// end closes the socket, which frees everything the session holds as soon as the server sees it, answers whoever waits
// for it and tells the holders. Only the first call does anything; anybody may call it.
func (s *mainSession) end(why driver.Reason, err error) {
	_ = s.socket.Close() // a failure to close a socket that is given up changes nothing
	s.sending.Lock()     // a write that hangs has been ended by that
	defer s.sending.Unlock()
	l := s.lanes
	l.mu.Lock()
	if s.cause != nil {
		l.mu.Unlock()
		return
	}
	s.cause = ended(why, err)
	if s.timer != nil {
		s.timer.Stop()
	}
	s.abandonWork()
	lost := s.grants.takeAll()
	for _, g := range lost {
		l.forgetGrant(g)
	}
	l.remove(s)
	l.mu.Unlock()

	for _, g := range lost {
		g.tell(why, err)
	}
	log := l.backend.env.Logger.Debug
	if len(lost) > 0 {
		log = l.backend.env.Logger.Warn
	}
	log("lock session ended", "pid", s.pid, "locks", len(lost), "reason", why, "error", err)
}

// abandonWork answers what the session was doing and was to do. It runs under mu. A try that was sent may have been
// granted, and is gone with the session; it can be tried again elsewhere. A release has happened, one way or the other,
// but whether the lock was held until then is not known.
func (s *mainSession) abandonWork() {
	for _, a := range append(s.batch, s.releases...) {
		if a.release {
			s.drop(a.grant)
			s.lanes.fail(a, lostBecause(s.cause))
		} else {
			s.lanes.fail(a, errSessionEnded{s.cause})
		}
	}
	s.batch, s.releases = nil, nil
	if s.call != nil {
		s.calls = append(s.calls, s.call)
	}
	for _, c := range s.calls {
		c.err = s.cause
		if c.answered != nil {
			close(c.answered)
		}
	}
	s.call, s.calls = nil, nil
}

// errSessionEnded marks an ask that a session's end left without an answer.
type errSessionEnded struct{ error }

func (e errSessionEnded) Unwrap() error { return e.error }

func (s *mainSession) deadline() driver.Instant { return driver.Instant(s.trustedUntil.Load()) }

func (s *mainSession) reasonNow() driver.Reason {
	if driver.Now() >= s.deadline() {
		return driver.ReasonLease
	}
	return driver.ReasonSession
}

func (s *mainSession) hasEnded() bool {
	s.lanes.mu.Lock()
	defer s.lanes.mu.Unlock()
	return s.cause != nil
}

const maxAsks = 512 // asks in one statement
