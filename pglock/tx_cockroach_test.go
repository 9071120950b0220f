package pglock_test

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pglock-toolkit/pglock/pglock"
)

func TestTxATransactionOnCockroachDBIsRefusedBeforeAnythingIsSent(t *testing.T) {
	t.Parallel()
	server := txStartCockroach(t)
	conn := txConnect(t, server.connString(), nil)
	tx := txBegin(t, conn)
	received := server.received()
	for _, form := range txAllForms {
		err := form.lock(t.Context(), tx, pglock.NewKey("a"))
		if !errors.Is(err, pglock.ErrUnsupported) || !strings.Contains(err.Error(), "CockroachDB CCL v24.1.0") {
			t.Errorf("%s: the error is %v", form.name, err)
		}
	}
	batch := &pgx.Batch{}
	batch.Queue("SELECT 1")
	pglock.QueueLockTx(batch, pglock.NewKey("a"))
	results := conn.SendBatch(t.Context(), batch)
	if _, err := results.Exec(); !errors.Is(err, pglock.ErrUnsupported) {
		t.Errorf("a batch read by hand: the error is %v", err)
	}
	if err := results.Close(); !errors.Is(err, pglock.ErrUnsupported) {
		t.Errorf("a closed batch: the error is %v", err)
	}
	if !slices.Equal(received, []string{"begin"}) || !slices.Equal(server.received(), received) {
		t.Errorf("the server received %q, and then %q", received, server.received())
	}
}

// txCockroach speaks just enough of PostgreSQL's protocol for a client to take it for CockroachDB, and to begin and end
// transactions.
type txCockroach struct {
	listener net.Listener
	mu       sync.Mutex
	queries  []string
}

func txStartCockroach(t *testing.T) *txCockroach {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	txCheck(t, err)
	server := &txCockroach{listener: listener}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { server.serve(t, conn) })
		}
	})
	t.Cleanup(func() {
		txCheck(t, listener.Close())
		serving.Wait()
	})
	return server
}

func (s *txCockroach) connString() string {
	return "postgres://app@" + s.listener.Addr().String() + "/db?sslmode=disable"
}

// received returns the statements that the server received, in either protocol.
func (s *txCockroach) received() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.queries)
}

func (s *txCockroach) serve(t *testing.T, conn net.Conn) {
	defer func() { _ = conn.Close() }()
	backend := pgproto3.NewBackend(conn, conn)
	if _, err := backend.ReceiveStartupMessage(); err != nil {
		t.Errorf("the startup message: %v", err)
		return
	}
	s.answer(t, backend, 'I', &pgproto3.AuthenticationOk{},
		&pgproto3.ParameterStatus{Name: "standard_conforming_strings", Value: "on"},
		&pgproto3.ParameterStatus{Name: "client_encoding", Value: "UTF8"},
		&pgproto3.ParameterStatus{Name: "crdb_version", Value: "CockroachDB CCL v24.1.0"})
	for {
		message, err := backend.Receive()
		if err != nil {
			return
		}
		switch message := message.(type) {
		case *pgproto3.Terminate:
			return
		case *pgproto3.Query:
			s.record(message.String)
			status := byte('I')
			if message.String == "begin" {
				status = 'T'
			}
			s.answer(t, backend, status, &pgproto3.CommandComplete{CommandTag: []byte(strings.ToUpper(message.String))})
		default: // there is no answer to it
			s.record(fmt.Sprintf("%T", message))
			return
		}
	}
}

func (s *txCockroach) record(query string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queries = append(s.queries, query)
}

func (s *txCockroach) answer(t *testing.T, to *pgproto3.Backend, status byte, messages ...pgproto3.BackendMessage) {
	for _, message := range messages {
		to.Send(message)
	}
	to.Send(&pgproto3.ReadyForQuery{TxStatus: status})
	if err := to.Flush(); err != nil {
		t.Errorf("answer: %v", err)
	}
}
