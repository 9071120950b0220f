package simulation

import (
	"errors"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/wire"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/wiretest"
)

// process is one server process: it serves one session.
type process struct {
	server *server
	link   *link
	conn   *end
	back   *pgproto3.Backend
	random *rand.Rand    // used by its goroutine, and under the link's mu
	signal chan struct{} // has a message when cancelled or terminated has been set

	// Used by its goroutine only:
	operation   string // of the next wait
	number      string
	lockTimeout time.Duration

	// Under the simulation's mu:
	pid        uint32
	shown      string // of its last statement: the waits that it publishes
	busy       bool   // with a statement
	waits      bool   // for a lock
	cancelled  bool
	terminated bool
	loses      bool          // the connection breaks before the next answer
	dying      time.Duration // the next answer is late by that, and nothing arrives after it
	hasWaited  bool          // it is a wait session
	carries    bool          // it is a mux session
	ended      ending
	endedAt    time.Time
}

// ending says why a session has ended.
type ending string

const (
	alive    ending = ""
	byClient ending = "by the client"       // or by the end of its connection
	silent   ending = "by the lease"        // idle_session_timeout
	byServer ending = "by the server"       // pg_terminate_backend, a restart
	broken   ending = "by a broken network" // a reset
)

// The SQLSTATEs with which statements fail.
const (
	cancelCode     = "57014"
	terminateCode  = "57P01"
	idleCode       = "57P05"
	fullCode       = "53200"
	lockCode       = "55P03"
	permissionCode = "42501"
)

func (p *process) wake() {
	select {
	case p.signal <- struct{}{}:
	default:
	}
}

func (p *process) run() {
	defer p.server.all.Done()
	if !p.startUp() {
		_ = p.conn.Close()
		return
	}
	p.end(p.serve())
}

// startUp reads the first message, and reports whether a session begins.
func (p *process) startUp() bool {
	m, err := p.back.ReceiveStartupMessage()
	if err != nil {
		return false
	}
	if request, ok := m.(*pgproto3.CancelRequest); ok {
		p.server.cancel(request.ProcessID, "by a request")
		return false
	}
	p.server.enlist(p)
	_ = p.send( // it notices a broken connection when it reads
		&pgproto3.AuthenticationOk{},
		&pgproto3.ParameterStatus{Name: "standard_conforming_strings", Value: "on"},
		&pgproto3.ParameterStatus{Name: "client_encoding", Value: "UTF8"},
		&pgproto3.BackendKeyData{ProcessID: p.pid, SecretKey: secret(p.pid)},
		&pgproto3.ReadyForQuery{TxStatus: 'I'},
	)
	return true
}

func (p *process) send(messages ...pgproto3.BackendMessage) error {
	for _, m := range messages {
		p.back.Send(m)
	}
	return p.back.Flush()
}

// serve carries out statements until the session ends, and returns why it does.
func (p *process) serve() ending {
	var st wiretest.Statement
	for {
		m, err := p.receive()
		if why := p.isOver(err); why != alive {
			return why
		}
		switch m := m.(type) {
		case *pgproto3.Bind:
			st.Bind(m)
			continue
		case *pgproto3.Query:
			st = wiretest.Statement{SQL: m.String}
		case *pgproto3.Sync:
		case *pgproto3.Terminate:
			return byClient
		default:
			continue
		}
		if why := p.answer(st); why != alive {
			return why
		}
		st = wiretest.Statement{}
	}
}

// receive waits for a message, at most for the lease.
func (p *process) receive() (pgproto3.FrontendMessage, error) {
	p.server.s.mu.Lock()
	deadline := longAgo
	if !p.terminated {
		deadline = time.Now().Add(p.server.lease)
	}
	_ = p.conn.SetReadDeadline(deadline)
	p.server.s.mu.Unlock()
	m, err := p.back.Receive()
	p.server.awaitThaw()
	return m, err
}

// isOver says why the session ends, given the error with which it has received a message, and tells the client if it can.
func (p *process) isOver(err error) ending {
	var terminated bool
	p.server.set(func() { terminated = p.terminated })
	switch {
	case err == nil:
		return alive
	case errors.Is(err, os.ErrDeadlineExceeded) && terminated:
		return p.fatal(terminateCode, byServer)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return p.fatal(idleCode, silent)
	case errors.Is(err, errReset):
		return broken
	}
	return byClient
}

// fatal tells the client that the session ends.
func (p *process) fatal(code string, why ending) ending {
	p.back.Send(&pgproto3.ErrorResponse{Severity: "FATAL", SeverityUnlocalized: "FATAL", Code: code, Message: "the session ends " + string(why)})
	p.conn.farewell()
	_ = p.back.Flush()
	return why
}

// end frees what the session holds, a moment after the client has been told, key by key.
func (p *process) end(why ending) {
	s := p.server.s
	time.Sleep(p.upTo(2 * time.Millisecond))
	s.mu.Lock()
	p.ended, p.endedAt = why, time.Now()
	s.trace("process %d ends %s", p.pid, why)
	s.oracle.sessionEnds(p)
	left := s.server.locks.ofSession(p)
	s.mu.Unlock()
	for _, held := range left {
		s.mu.Lock()
		s.server.locks.unlock(held.key, held.holding)
		s.mu.Unlock()
		time.Sleep(p.upTo(100 * time.Microsecond))
	}
	s.mu.Lock()
	delete(s.server.processes, p.pid)
	s.mu.Unlock()
	_ = p.conn.Close()
}

func (p *process) upTo(d time.Duration) time.Duration {
	p.link.mu.Lock()
	defer p.link.mu.Unlock()
	return p.server.s.vary(p.random, d)
}

func (p *process) chance(n int) bool {
	p.link.mu.Lock()
	defer p.link.mu.Unlock()
	return p.random.IntN(n) == 0
}

// failure is the SQLSTATE with which a statement fails; empty if it does not.
type failure string

// answer carries a statement out, and says why the session ends, if it does.
func (p *process) answer(st wiretest.Statement) ending {
	p.setBusy(true)
	rows, code := p.carryOut(st)
	p.setBusy(false)
	p.server.awaitThaw()
	switch code {
	case terminateCode:
		return p.fatal(terminateCode, byServer)
	case "gone":
		return byClient
	}
	var dying time.Duration
	var loses bool
	p.server.set(func() { dying, loses, p.dying, p.loses = p.dying, p.loses, 0, false })
	if dying > 0 {
		p.work(dying)
		defer p.link.silence(direction{false, true})
	}
	if loses {
		p.link.cut(errReset, p.link.ends[:]...)
		return alive // it notices that when it reads
	}
	messages := rows
	if code != "" {
		messages = append(messages, &pgproto3.ErrorResponse{Severity: "ERROR", SeverityUnlocalized: "ERROR", Code: string(code), Message: "simulated"})
	}
	_ = p.send(append(messages, &pgproto3.ReadyForQuery{TxStatus: 'I'})...) // it notices a broken connection when it reads
	return alive
}

func (p *process) setBusy(busy bool) {
	p.server.set(func() { p.busy, p.cancelled = busy, false })
}

// interrupted returns how the statement has been interrupted, if it has been.
func (p *process) interrupted() failure {
	p.server.s.mu.Lock()
	defer p.server.s.mu.Unlock()
	switch {
	case p.terminated:
		return terminateCode
	case p.cancelled:
		p.cancelled = false
		return cancelCode
	}
	return ""
}

// work takes d, unless it is interrupted.
func (p *process) work(d time.Duration) failure {
	p.server.awaitThaw()
	over := time.NewTimer(d)
	defer over.Stop()
	for {
		if code := p.interrupted(); code != "" {
			return code
		}
		select {
		case <-over.C:
			return p.interrupted()
		case <-p.signal:
		}
	}
}

func (p *process) carryOut(st wiretest.Statement) (rows []pgproto3.BackendMessage, code failure) {
	if code = p.work(p.upTo(p.server.s.distance)); code != "" {
		return nil, code
	}
	if st.SQL != "" {
		return p.call(st.SQL)
	}
	done := make([]string, len(st.Keys))
	for i := range st.Keys {
		if i > 0 && p.chance(4) { // others run in between
			if code := p.work(p.upTo(p.server.s.distance)); code != "" {
				return nil, code
			}
		}
		ok, code := p.operate(&st, i)
		if code != "" {
			return nil, code
		}
		done[i] = strconv.FormatBool(ok)[:1]
	}
	if !st.Rows {
		return row("{" + strings.Join(done, ",") + "}"), ""
	}
	for _, value := range done {
		rows = append(rows, row(value)...)
	}
	return rows, ""
}

func row(value string) []pgproto3.BackendMessage {
	return []pgproto3.BackendMessage{&pgproto3.DataRow{Values: [][]byte{[]byte(value)}}}
}

// operate carries out a statement for one of its keys.
func (p *process) operate(st *wiretest.Statement, i int) (done bool, code failure) {
	s := p.server.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if !p.carries && !p.hasWaited {
		p.carries = true
		s.oracle.opened(p)
	}
	key, h := keyOf(int64(st.Operations[i]), st.Keys[i]), holding{p, st.Operations[i]&wire.Shared != 0}
	locks := &p.server.locks
	switch held := locks.holds(key, h); {
	case st.Asks:
		return held, ""
	case st.Releases(i):
		if !held {
			s.wrong("process %d is asked to release %v, which it does not hold", p.pid, key.Number)
		}
		s.trace("process %d releases %d", p.pid, key.Number)
		return locks.unlock(key, h), ""
	case held:
		s.wrong("process %d is asked to lock %v, which it holds", p.pid, key.Number)
		return true, ""
	case p.server.full:
		return false, fullCode
	}
	done = locks.try(key, h)
	s.trace("process %d tries to lock %d: %v", p.pid, key.Number, done)
	return done, ""
}

func keyOf(op, number int64) driver.KeyID {
	space := driver.SpaceBigint
	if op&int64(wire.Pair) != 0 {
		space = driver.SpacePair
	}
	return driver.KeyID{Space: space, Number: number}
}

// waitToLock waits for the lock of an operation.
func (p *process) waitToLock(operation, number string) failure {
	op, _ := strconv.ParseInt(operation, 10, 64)
	n, _ := strconv.ParseInt(number, 10, 64)
	if operation == "" {
		return ""
	}
	return p.waitFor(keyOf(op, n), op&int64(wire.Shared) != 0)
}

// waitFor waits for a lock. A cancel request may hit the statement after the lock was granted: then it fails, and the
// session keeps the lock.
func (p *process) waitFor(key driver.KeyID, shared bool) failure {
	s := p.server.s
	h := holding{p, shared}
	s.mu.Lock()
	if p.server.locks.holds(key, h) {
		s.wrong("process %d is asked to wait for %v, which it holds", p.pid, key.Number)
	}
	w := p.server.locks.wait(key, h)
	p.waits, p.hasWaited = true, true
	s.trace("process %d waits for %d", p.pid, key.Number)
	s.mu.Unlock()
	code := p.awaitGrant(w)
	s.mu.Lock()
	p.waits = false
	if code != "" && p.server.locks.leave(w) {
		s.trace("process %d leaves the queue for %d: %s", p.pid, key.Number, code)
		s.mu.Unlock()
		return code
	}
	s.mu.Unlock()
	if code != "" { // the grant was first; the statement may end or fail
		if code == "gone" || p.chance(2) {
			return code
		}
	}
	p.server.awaitThaw()
	return p.work(p.upTo(p.server.s.distance))
}

func (p *process) awaitGrant(w *waiter) failure {
	check := time.NewTicker(p.server.s.lease / 5) // client_connection_check_interval
	defer check.Stop()
	var limit <-chan time.Time
	if p.lockTimeout > 0 {
		limit = time.After(p.lockTimeout)
	}
	for {
		select {
		case <-w.granted:
			return ""
		case <-p.signal:
			if code := p.interrupted(); code != "" {
				return code
			}
		case <-limit:
			return lockCode
		case <-check.C:
			if !p.server.blind && p.conn.isBroken() {
				return "gone"
			}
		}
	}
}

// unlockAll releases everything that the session holds.
func (p *process) unlockAll() {
	p.server.s.mu.Lock()
	defer p.server.s.mu.Unlock()
	for _, held := range p.server.locks.ofSession(p) {
		p.server.s.trace("process %d releases %d, with all", p.pid, held.key.Number)
		p.server.locks.unlock(held.key, held.holding)
	}
}

// holds reports whether the session has the key, in any mode.
func (p *process) holds(key driver.KeyID) bool {
	p.server.s.mu.Lock()
	defer p.server.s.mu.Unlock()
	return p.server.locks.holds(key, holding{p, true}) || p.server.locks.holds(key, holding{p, false})
}
