package postgres

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/txguard"
)

// mainSession is one connection that holds many locks, and the lease on them.
//
// Statements are put in line under lanes.mu, and written in that order by whoever put one there: a caller, who reads when
// an answer has made room for more, or the timer with a heartbeat. The server ends a session that it has heard nothing
// from for the lease; its clock starts when it has answered a statement, so the session can be trusted until the sending
// of the last answered one plus the lease, less a margin.
type mainSession struct {
	lanes      *lanes
	names      statementNames
	socket     net.Conn
	pid        uint32
	guardPID   int32 // for the guard against proxies; 0 where one is allowed
	lockTable  int   // nominal size of the server's lock table
	lease      time.Duration
	readerDone chan struct{}
	identity   txguard.Identity

	trustedUntil atomic.Int64 // a driver.Instant

	ending   sync.Once
	sending  sync.Mutex // keeps the order of the statements, and guards:
	wire     wire
	outgoing []*statement // the room of those that were written last

	// Of who reads; see reading.go:
	answer  answer
	results []bool
	woken   []chan *mainSession // callers whose asks have been answered

	// Under lanes.mu:
	outbox    []*statement // to be written
	inFlight  []*statement // to be written or answered, in order
	asks      int          // in them
	lastSent  driver.Instant
	crowd     int           // callers whom the last one answered
	gathering bool          // somebody lets others come before he sends
	roundTrip time.Duration // the shortest seen
	spare     []*statement
	releases  []*ask // for the next statement
	grants    grantList
	cause     error // why the session has ended
	timer     *time.Timer
	forgotten bool // something was queued and not sent when the timer ran

	reading              reading
	interruptible        bool          // somebody else than the reader may read
	interrupted          bool          // who reads is to step down
	resume               chan struct{} // wakes the reader
	overseer             *time.Timer
	overseen             bool // the overseer is running
	answers, answersSeen int
}

// statement is one statement on its way.
type statement struct {
	call    *call  // it is a call, or
	asks    []*ask // a batch,
	failure error  // or, after a batch has failed half way for this reason, the question what is held of it
	sentAt  driver.Instant

	// What the batch is about, key by key.
	operations []int16
	numbers    []int64
	releases   int // in a plain batch, which has no operations, the number of releases; they come first
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

// statementNames are the names of a session's prepared statements, which no other session has.
type statementNames struct{ try, unlock, plainBatch, batch, reconcile string }

func namesOn(pid int32) statementNames {
	name := func(what string) string { return "pglock_" + what + "_" + strconv.Itoa(int(pid)) }
	return statementNames{name("try"), name("unlock"), name("plain_batch"), name("batch"), name("reconcile")}
}

// openMain dials, sets up and prepares.
func openMain(ctx context.Context, b *Backend) (*mainSession, error) {
	dialled, err := open(ctx, b)
	if err != nil {
		return nil, err
	}
	names := dialled.names
	for _, st := range []struct {
		name, sql string
		params    int
	}{
		{names.try, lockdb.TryOne, 1},
		{names.unlock, lockdb.UnlockOne, 1},
		{names.plainBatch, lockdb.PlainBatch, 2},
		{names.batch, lockdb.Batch, 2},
		{names.reconcile, lockdb.Reconcile, 2},
	} {
		if _, err := dialled.pg.Prepare(ctx, st.name, guarded(st.sql, st.params, dialled.pid), nil); err != nil {
			dialled.hangUp(ctx)
			return nil, fmt.Errorf("%w: prepare a lock session: %w", driver.ErrUnavailable, err)
		}
	}
	hijacked, err := dialled.pg.Hijack()
	if err != nil {
		dialled.hangUp(ctx)
		return nil, fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	}
	s := &mainSession{
		wire: wire{front: hijacked.Frontend}, names: names, lanes: &b.lanes, socket: hijacked.Conn, pid: hijacked.PID,
		roundTrip: time.Hour, guardPID: dialled.pid, lockTable: dialled.lockTable, lease: b.env.Lease, readerDone: make(chan struct{}),
		resume: make(chan struct{}, 1), interruptible: interruptible(hijacked.Conn),
	}
	s.trustedUntil.Store(dialled.trustedUntil.Load())
	return s, nil
}

// start begins to read, and to keep the lease.
func (s *mainSession) start() {
	s.lanes.mu.Lock()
	s.timer = time.AfterFunc(min(s.lease/5, lookEvery), s.keep)
	s.overseer = time.AfterFunc(time.Hour, s.oversee)
	s.overseer.Stop()
	s.lanes.mu.Unlock()
	go s.watch()
}

// answeredStatement settles the statement that has been answered, and goes on: with what is queued and then with the
// caller who waits for the answer, so that the server has work again; or, when several do, the other way round. It is for
// who reads.
func (s *mainSession) answeredStatement() {
	l := s.lanes
	l.mu.Lock()
	if s.cause != nil || len(s.inFlight) == 0 {
		l.mu.Unlock()
		return
	}
	if err := s.settleFirst(); err != nil {
		l.mu.Unlock()
		s.end(driver.ReasonSession, err)
		return
	}
	gathers := s.gathers()
	switch {
	case gathers:
		s.gathering = true
	case !s.leavesSending():
		s.load()
	}
	more := len(s.outbox) > 0
	l.mu.Unlock()
	if more {
		s.flush()
	}
	for _, wake := range s.woken {
		wake <- nil
	}
	s.woken = s.woken[:0]
	if gathers {
		l.mu.Lock()
		s.letOthersCome()
		l.mu.Unlock()
		s.proceed()
	}
}

// settleFirst settles the first statement of those in flight. An error says that the session cannot be trusted any more.
// It runs under mu.
func (s *mainSession) settleFirst() error {
	st := s.inFlight[0]
	s.answers++
	s.crowd = len(st.asks)
	s.trustedUntil.Store(int64(st.sentAt.Add(s.lease - s.lease/10)))
	s.roundTrip = min(s.roundTrip, driver.Now().Sub(st.sentAt))
	if st.call != nil {
		st.call.settle(&s.answer)
	} else if err := s.settleBatch(st); err != nil {
		return err
	}
	s.shift()
	return nil
}

// shift takes the first statement out of those in flight. It runs under mu.
func (s *mainSession) shift() {
	st := s.inFlight[0]
	n := copy(s.inFlight, s.inFlight[1:])
	s.inFlight[n] = nil
	s.inFlight = s.inFlight[:n]
	s.asks -= len(st.asks)
	clear(st.asks)
	*st = statement{asks: st.asks[:0], operations: st.operations[:0], numbers: st.numbers[:0]}
	s.spare = append(s.spare, st)
}

// proceed sends what is queued.
func (s *mainSession) proceed() {
	s.lanes.mu.Lock()
	if s.load() {
		s.expectAnswer(nil)
	}
	more := len(s.outbox) > 0
	s.lanes.mu.Unlock()
	if more {
		s.flush()
	}
}

// ready reports whether one more statement may go on its way. When the server is near, one at a time is best: callers who
// come meanwhile share the next one, which costs both sides less. Only a full one follows at once, so that the server has
// work while its answer is read. When the server is far, waiting for an answer first would cost more than that: then there
// may be two always, and more as long as they are for few callers each, or full. It runs under mu.
func (s *mainSession) ready() bool {
	n := len(s.inFlight)
	switch {
	case s.cause != nil:
		return false
	case n == 0:
		return true
	case !s.isFar():
		return n < 2 && s.isFull()
	}
	return n < 2 || n < maxInFlight && (s.asks <= 2*n || s.isFull())
}

// isFull reports whether as much is queued as one statement should take. It runs under mu.
func (s *mainSession) isFull() bool {
	n := s.queued()
	return n > manyAsks && n >= s.lanes.share()
}

// load puts a statement with everything that is queued in line, releases first, and reports whether there was anything.
// It runs under mu.
func (s *mainSession) load() bool {
	l := s.lanes
	if !s.ready() || s.queued() == 0 {
		return false
	}
	st := s.newStatement()
	st.take(&s.releases, maxAsks)
	if s.tries() {
		st.take(&l.pending, l.share())
	}
	s.line(st)
	l.kick() // somebody else may take the rest
	return true
}

// tries reports whether the session takes tries now. It runs under mu.
func (s *mainSession) tries() bool { return slices.Contains(s.lanes.trying(), s) }

// queued is how many asks the session can take. It runs under mu.
func (s *mainSession) queued() int {
	n := len(s.releases)
	if s.tries() {
		n += len(s.lanes.pending)
	}
	return n
}

// isAboutToSend reports whether somebody is going to send what is queued: who lets others come before, or who leads and
// has not sent yet. It runs under mu.
func (s *mainSession) isAboutToSend() bool {
	return s.gathering || s.reading == led && len(s.inFlight) == 0
}

// gathers reports whether those who have just been answered together are to be waited for before the next statement is
// sent. It runs under mu.
func (s *mainSession) gathers() bool {
	return s.crowd > 1 && len(s.inFlight) == 0 && !s.gathering && !s.isFar()
}

// letOthersCome lets those run who have just been answered together, since they are likely to ask for more: one
// statement then serves them all. Where processors are idle it takes a microsecond. It runs under mu, which it gives up
// meanwhile.
func (s *mainSession) letOthersCome() {
	s.gathering = true
	turns := 4 // they may run on other processors, just now
	if s.crowd > manyAsks {
		turns = 1 // which is a turn for many of them
	}
	for ; turns > 0 && s.cause == nil && s.queued() < s.crowd; turns-- {
		s.lanes.mu.Unlock()
		runtime.Gosched()
		s.lanes.mu.Lock()
	}
	s.gathering = false
}

// isFar reports whether statements take so long to get to the server that waiting for one to be answered costs more than
// what it saves. It runs under mu.
func (s *mainSession) isFar() bool { return s.roundTrip >= far }

// busier compares what sessions have to do, and what they will have to do: release what they hold.
func (s *mainSession) busier(other *mainSession) int {
	return cmp.Or(cmp.Compare(len(s.inFlight), len(other.inFlight)), cmp.Compare(s.grants.n, other.grants.n))
}

// line puts st in line. It runs under mu.
func (s *mainSession) line(st *statement) {
	st.sentAt = driver.Now() // a little early is on the safe side
	s.lastSent = st.sentAt
	s.asks += len(st.asks)
	s.inFlight = append(s.inFlight, st)
	s.outbox = append(s.outbox, st)
}

func (s *mainSession) newStatement() *statement {
	if n := len(s.spare); n > 0 {
		st := s.spare[n-1]
		s.spare = s.spare[:n-1]
		return st
	}
	return &statement{}
}

// take moves asks from a queue to the statement, until it has most.
func (st *statement) take(queue *[]*ask, most int) {
	n := max(0, min(len(*queue), most-len(st.asks)))
	for _, a := range (*queue)[:n] {
		if a.state != abandoned {
			a.state = sent
		}
		st.asks = append(st.asks, a)
	}
	rest := copy(*queue, (*queue)[n:])
	clear((*queue)[rest:])
	*queue = (*queue)[:rest]
}

// flush writes what is in line. Whoever puts a statement there calls it, so nothing stays behind; another goroutine may
// be faster, and then there is nothing left to do.
func (s *mainSession) flush() {
	s.sending.Lock()
	err := s.writeOutbox()
	s.sending.Unlock()
	if err != nil {
		s.end(s.reasonNow(), err)
	}
}

func (s *mainSession) writeOutbox() error {
	s.lanes.mu.Lock()
	if s.cause != nil {
		s.lanes.mu.Unlock()
		return nil
	}
	statements := s.outbox
	s.outbox, s.outgoing = s.outgoing, statements[:0]
	s.lanes.mu.Unlock()
	for _, st := range statements {
		if err := s.write(st); err != nil {
			return err
		}
	}
	return nil
}

func (s *mainSession) write(st *statement) error {
	switch {
	case st.call != nil:
		return s.wire.sendQuery(literal(st.call.sql, st.call.args))
	case st.failure != nil:
		return sendBatch(&s.wire, s.names.reconcile, st.operations, st.numbers)
	case !st.plain():
		st.spread()
		return sendBatch(&s.wire, s.names.batch, st.operations, st.numbers)
	case len(st.asks) <= fewAsks: // one behind the other cost less than one over arrays
		for _, a := range st.asks {
			name := s.names.try
			if a.release {
				name = s.names.unlock
			}
			s.wire.one(name, a.grant.numbers()[0])
		}
		return s.wire.sync()
	}
	st.spreadPlain()
	return sendBatch(&s.wire, s.names.plainBatch, st.numbers[:st.releases], st.numbers[st.releases:])
}

// plain reports whether all asks are for one exclusive lock of the bigint space each.
func (st *statement) plain() bool {
	for _, a := range st.asks {
		if !a.plainBigint() {
			return false
		}
	}
	return true
}

// spread lists what the batch is about, key by key.
func (st *statement) spread() {
	st.operations, st.numbers = st.operations[:0], st.numbers[:0]
	for _, a := range st.asks {
		for i, number := range a.grant.numbers() {
			st.operations = append(st.operations, a.operation(i))
			st.numbers = append(st.numbers, number)
		}
	}
}

// spreadPlain does so for a plain batch.
func (st *statement) spreadPlain() {
	st.releases, st.numbers = 0, st.numbers[:0]
	for _, a := range st.asks {
		if a.release {
			st.releases++
		}
		st.numbers = append(st.numbers, a.grant.numbers()[0])
	}
}

// settle gives the answer to whoever called.
func (c *call) settle(a *answer) {
	c.row, c.some = string(a.row), a.some
	if a.err != nil {
		c.err = a.err
	}
	if c.answered != nil {
		close(c.answered)
	}
}

// settleBatch answers the asks of a batch. An error says that the session cannot be trusted any more.
//
// A statement over many keys that fails is half done: what it had locked and released before the failure stays so. Then
// nobody is answered before pg_locks has said what is held.
func (s *mainSession) settleBatch(st *statement) error {
	reconciling := st.failure != nil
	switch {
	case s.answer.err != nil && reconciling:
		return s.answer.err
	case s.answer.err != nil:
		question := s.newStatement()
		question.asks = append(question.asks, st.asks...)
		question.failure = s.answer.err
		question.spread()
		s.line(question)
		return nil
	case !s.answer.some:
		return refusal("pglock_pooler")
	}
	count := 0
	for _, a := range st.asks {
		count += a.grant.len()
	}
	var err error
	if s.results, err = parseBools(s.answer.row, s.results, count); err != nil {
		return err
	}
	results := s.results
	for _, a := range st.asks {
		n := a.grant.len()
		if reconciling {
			s.settleReconciled(a, results[:n], st.failure)
		} else {
			s.settle(a, results[:n], nil)
		}
		results = results[n:]
	}
	return nil
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
	refs := 0
	if wake {
		s.woken = append(s.woken, a.caller.wake)
		refs = 1
	}
	if !a.release && g.len() > 0 {
		s.grants.add(g)
		s.lanes.settleShared(g, s, refs)
	}
}

// drop takes a grant off the books, once. It runs under mu.
func (s *mainSession) drop(g *grant) {
	if s.grants.remove(g) {
		s.lanes.forgetGrant(g)
	}
}

// settleReconciled answers one ask of a batch that failed, given which of its keys are held now.
func (s *mainSession) settleReconciled(a *ask, held []bool, failure error) {
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
	case !any && !a.retried && !s.lanes.closed && a.state != abandoned && serverCode(failure) == codeQueryCanceled: // somebody's pg_cancel_backend
		a.retried, a.state = true, pending
		s.lanes.pending = append(s.lanes.pending, a)
		if !s.tries() {
			s.lanes.kick()
		}
	default:
		s.settle(a, held, classify(failure))
	}
}

// do runs a statement of its own kind.
func (s *mainSession) do(ctx context.Context, sql string, args ...string) (row string, some bool, err error) {
	c := &call{sql: sql, args: args, answered: make(chan struct{})}
	if err := s.send(c); err != nil {
		return "", false, err
	}
	select {
	case <-c.answered:
		return c.row, c.some, c.err
	case <-ctx.Done():
		return "", false, fmt.Errorf("%w: no answer: %w", driver.ErrUnavailable, context.Cause(ctx))
	}
}

func (s *mainSession) send(c *call) error {
	l := s.lanes
	l.mu.Lock()
	if s.cause != nil {
		l.mu.Unlock()
		return s.cause
	}
	st := s.newStatement()
	st.call = c
	s.line(st)
	s.expectAnswer(nil)
	l.mu.Unlock()
	s.flush()
	return nil
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
	if s.unanswered(now) >= releasePatience {
		s.giveUpReleases()
	}
	quiet := len(s.inFlight) == 0 && now.Sub(s.lastSent) >= every-min(every, lookEvery)/2
	s.sendForgotten(now)
	s.timer.Reset(min(every, left, lookEvery))
	l.mu.Unlock()
	if quiet {
		_ = s.send(&call{sql: lockdb.Heartbeat}) // it fails only when the session has ended
	}
}

// sendForgotten has sent what was queued and lies there although the session is ready, which it finds when it looks for
// the second time. Whoever queues something sees to it that it is sent, so there should be nothing; but if that went
// wrong, callers would wait for ever. It runs under mu.
func (s *mainSession) sendForgotten(now driver.Instant) {
	forgotten := s.ready() && s.queued() > 0 && now.Sub(s.lastSent) >= lookEvery
	if forgotten && s.forgotten {
		go func() {
			s.lanes.backend.env.Logger.Warn("lock session sends late what was queued", "pid", s.pid)
			s.proceed()
		}()
	}
	s.forgotten = forgotten
}

// unanswered is how long the oldest statement has been on its way; 0 when there is none. It runs under mu.
func (s *mainSession) unanswered(now driver.Instant) time.Duration {
	if len(s.inFlight) == 0 {
		return 0
	}
	return now.Sub(s.inFlight[0].sentAt)
}

// giveUpReleases ends the wait of those who release, on a server that does not answer. It runs under mu.
func (s *mainSession) giveUpReleases() {
	for _, st := range s.inFlight {
		giveUpReleases(st.asks)
	}
	giveUpReleases(s.releases)
}

func giveUpReleases(asks []*ask) {
	for _, a := range asks {
		if a.release && a.caller != nil && a.state != abandoned {
			a.state, a.err = abandoned, errNoAnswer
			a.caller.wake <- nil
		}
	}
}

// end closes the socket, which frees everything the session holds as soon as the server sees it, answers whoever waits
// for it and tells the holders. Only the first call does anything, and the others wait for it; anybody may call it.
func (s *mainSession) end(why driver.Reason, err error) {
	s.ending.Do(func() { s.endNow(why, err) })
}

func (s *mainSession) endNow(why driver.Reason, err error) {
	_ = s.socket.Close() // a failure to close a socket that is given up changes nothing
	s.sending.Lock()     // a write that hangs has been ended by that
	defer s.sending.Unlock()
	l := s.lanes
	l.mu.Lock()
	s.cause = ended(why, err)
	if s.timer != nil {
		s.timer.Stop()
		s.overseer.Stop()
	}
	if s.reading == resting { // who leads will see it
		s.wakeReader()
	}
	calls := s.abandonWork()
	lost := s.grants.takeAll()
	for _, g := range lost {
		l.forgetGrant(g)
	}
	l.remove(s)
	l.mu.Unlock()

	for _, g := range lost {
		g.tell(why, err)
	}
	for _, c := range calls { // who asked about a lock knows by then how it was lost
		close(c.answered)
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
// It returns the calls, whose answer the caller gives.
func (s *mainSession) abandonWork() (calls []*call) {
	left := s.releases
	for _, st := range s.inFlight {
		left = append(left, st.asks...)
		if c := st.call; c != nil && c.answered != nil {
			c.err = s.cause
			calls = append(calls, c)
		}
	}
	for _, a := range left {
		if a.release {
			s.drop(a.grant)
			s.lanes.fail(a, lostBecause(s.cause))
		} else {
			s.lanes.fail(a, errSessionEnded{s.cause})
		}
	}
	s.inFlight, s.outbox, s.releases = nil, nil, nil
	return calls
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

const (
	maxAsks     = 512 // in one statement
	manyAsks    = 32
	fewAsks     = 6 // measured: up to 7 an array costs the server more
	maxInFlight = 8 // statements of few callers each
	far         = 250 * time.Microsecond
)
