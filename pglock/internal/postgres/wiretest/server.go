// Package wiretest has a server for unit tests. It speaks the protocol of lock sessions over a pipe, applies their
// statements to a table of locks, and fails as the test says. It works in testing/synctest bubbles.
package wiretest

import (
	"cmp"
	"crypto/tls"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/wire"
)

// Locks is a table of exclusive locks, which several sessions share.
type Locks struct {
	T testing.TB

	mu      sync.Mutex
	holders map[int64]*Server
}

// NewLocks makes an empty table.
func NewLocks(t testing.TB) *Locks { return &Locks{T: t, holders: map[int64]*Server{}} }

// Holder returns the session that holds a key, or nil.
func (l *Locks) Holder(key int64) *Server {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.holders[key]
}

// Len returns how many keys are held.
func (l *Locks) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.holders)
}

// Verdict is what happens to a statement.
type Verdict struct {
	// Upto is the number of keys for which it is carried out before it fails; a negative number means all.
	Upto int
	// Code is the SQLSTATE with which it fails; if it is empty the statement succeeds.
	Code string
	// Value is the answer to a call; "1" if it is empty.
	Value string
	// Fatal ends the session, before an answer is given or, when Half, in the middle of it.
	Fatal bool
	// Half sends one half of the answer's bytes, asks what happens to a [Statement] that is [Half], and sends the
	// rest. If the session ends there, the first half is whole messages.
	Half bool
}

// Half is the SQL of the statement that Judge gets when half an answer has been sent.
const Half = "half"

// Server is the server's side of one session.
type Server struct {
	locks *Locks
	conn  net.Conn
	raw   *halved // under TLS, if there is any
	back  *pgproto3.Backend
	// Judge decides what happens to a statement; it may wait.
	judge func(Statement) Verdict
	done  chan struct{}

	writing chan struct{} // has room while nothing is sent; a mutex would stop a bubble's clock
	ended   bool          // under locks.mu
}

// Start makes a session, and returns the client's side of it.
func Start(l *Locks, judge func(Statement) Verdict) (*wire.Conn, *Server) {
	client, server := net.Pipe()
	raw := &halved{Conn: server}
	return start(l, judge, client, raw, raw)
}

// StartTLS is Start with TLS on both sides.
func StartTLS(l *Locks, judge func(Statement) Verdict) (*wire.Conn, *Server) {
	client, server := net.Pipe()
	raw := &halved{Conn: server}
	config := &tls.Config{Certificates: certificates(), SessionTicketsDisabled: true} // a pipe buffers none
	return start(l, judge, tls.Client(client, &tls.Config{InsecureSkipVerify: true}), tls.Server(raw, config), raw)
}

func start(l *Locks, judge func(Statement) Verdict, client, server net.Conn, raw *halved) (*wire.Conn, *Server) {
	s := &Server{
		locks: l, conn: server, raw: raw, back: pgproto3.NewBackend(server, server), judge: judge, done: make(chan struct{}),
		writing: make(chan struct{}, 1),
	}
	go s.run()
	return wire.NewConn(client, pgproto3.NewFrontend(client, client), 1, 0), s
}

// Say sends unrequested messages.
func (s *Server) Say(messages ...pgproto3.BackendMessage) {
	_ = s.send(messages, nil) // the client may have gone
}

// send sends messages; half is called when half of them have been sent, unless it is nil.
func (s *Server) send(messages []pgproto3.BackendMessage, half func()) error {
	s.writing <- struct{}{}
	defer func() { <-s.writing }()
	s.raw.half = half
	for _, m := range messages {
		s.back.Send(m)
	}
	return s.back.Flush()
}

// Terminate ends the session as an administrator does. Its locks are freed some time after the message.
func (s *Server) Terminate() {
	s.Say(Fatal)
	time.Sleep(time.Millisecond)
	s.end()
}

// Done returns a channel that is closed when the session has ended.
func (s *Server) Done() <-chan struct{} { return s.done }

// Fatal is the message that a server sends before it ends a session.
var Fatal = &pgproto3.ErrorResponse{
	Severity: "SCHWERWIEGEND", SeverityUnlocalized: "FATAL", Code: "57P01", Message: "terminating connection",
}

func (s *Server) end() {
	_ = s.conn.Close()
	s.locks.mu.Lock()
	defer s.locks.mu.Unlock()
	s.ended = true
	for key, holder := range s.locks.holders {
		if holder == s {
			delete(s.locks.holders, key)
		}
	}
}

func (s *Server) run() {
	defer close(s.done)
	defer s.end()
	var st Statement
	for {
		message, err := s.back.Receive()
		if err != nil {
			return
		}
		switch m := message.(type) {
		case *pgproto3.Bind:
			st.Bind(m)
		case *pgproto3.Query:
			st = Statement{SQL: m.String}
			if !s.answer(st) {
				return
			}
			st = Statement{}
		case *pgproto3.Sync:
			if !s.answer(st) {
				return
			}
			st = Statement{}
		case *pgproto3.Terminate:
			return
		}
	}
}

// answer carries a statement out and answers it, and reports whether the session is still usable.
func (s *Server) answer(st Statement) bool {
	v := s.judge(st)
	if v.Fatal && !v.Half {
		s.Terminate()
		return false
	}
	results := s.execute(st, v)
	var said []pgproto3.BackendMessage
	row := func(value string) { said = append(said, &pgproto3.DataRow{Values: [][]byte{[]byte(value)}}) }
	switch {
	case v.Code != "":
		said = append(said, &pgproto3.ErrorResponse{Severity: "ERROR", SeverityUnlocalized: "ERROR", Code: v.Code, Message: "scripted"})
	case st.SQL != "":
		row(cmp.Or(v.Value, "1"))
	case st.Rows:
		for _, r := range results {
			row(r)
		}
	default:
		row("{" + strings.Join(results, ",") + "}")
	}
	var half func()
	if v.Half {
		half = func() { s.judge(Statement{SQL: Half}) } // may wait
	}
	if v.Fatal {
		s.Say(said...)
		half()
		s.Terminate()
		return false
	}
	return s.send(append(said, &pgproto3.ReadyForQuery{TxStatus: 'I'}), half) == nil
}

// execute applies a statement to the table of locks, as far as v says.
func (s *Server) execute(st Statement, v Verdict) (results []string) {
	s.locks.mu.Lock()
	defer s.locks.mu.Unlock()
	if s.ended {
		return nil
	}
	seen := map[int64]bool{}
	for i, key := range st.Keys {
		if seen[key] {
			s.locks.T.Errorf("key %d is twice in one statement", key)
		}
		seen[key] = true
		holder := s.locks.holders[key]
		done := holder == s
		switch {
		case v.Code != "" && v.Upto >= 0 && i >= v.Upto, st.Asks:
		case st.Releases(i) && done:
			delete(s.locks.holders, key)
		case st.Releases(i):
			s.locks.T.Errorf("key %d is released by a session that does not hold it", key)
		case done:
			s.locks.T.Errorf("key %d is locked twice by one session", key)
		case holder == nil:
			s.locks.holders[key], done = s, true
		}
		results = append(results, strconv.FormatBool(done)[:1])
	}
	return results
}
