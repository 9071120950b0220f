package wire_test

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/wire"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/wiretest"
)

// receive reads one answer.
func receive(t *testing.T, c *wire.Conn) *wire.Answer {
	t.Helper()
	a := new(wire.Answer)
	must.Succeed(t, c.Receive(a))
	return a
}

// inBubble runs a test with one session, whose statements it gets.
func inBubble(t *testing.T, judge func(wiretest.Statement) wiretest.Verdict,
	test func(t *testing.T, c *wire.Conn, locks *wiretest.Locks, server *wiretest.Server, sent *[]wiretest.Statement),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var sent []wiretest.Statement
		locks := wiretest.NewLocks(t)
		c, server := wiretest.Start(locks, func(st wiretest.Statement) wiretest.Verdict {
			sent = append(sent, st)
			return judge(st)
		})
		test(t, c, locks, server, &sent)
		c.Close()
		<-server.Done()
	})
}

func carryOut(wiretest.Statement) wiretest.Verdict { return wiretest.Verdict{} }

// A batch is sent as several statements or as arrays. What it means does not depend on it.
func TestBatchMeansTheSameInEachForm(t *testing.T) {
	for _, op := range []wire.Operation{0, wire.Shared} { // with Shared it is not plain
		for _, n := range []int{1, 6, 7, wire.MixedKeys} {
			t.Run(fmt.Sprintf("operation %d, %d keys", op, n), func(t *testing.T) {
				inBubble(t, carryOut, func(t *testing.T, c *wire.Conn, locks *wiretest.Locks, _ *wiretest.Server, sent *[]wiretest.Statement) {
					var take, swap wire.Batch
					for i := range n {
						take.Add(op, int64(i)-int64(n/2))
						swap.Add(op|wire.Release, int64(i)-int64(n/2))
					}
					for i := range n {
						swap.Add(op, 1<<62+int64(i))
					}
					for _, b := range []*wire.Batch{&take, &swap} {
						must.Succeed(t, c.SendBatch(b))
						done, err := receive(t, c).Bools(nil, len(b.Numbers))
						if err != nil || slices.Contains(done, false) {
							t.Fatalf("%v, %v", done, err)
						}
						st := (*sent)[len(*sent)-1]
						if !slices.Equal(st.Keys, b.Numbers) {
							t.Errorf("the server got the keys %v, want %v", st.Keys, b.Numbers)
						}
						if !slices.Equal(st.Operations, b.Operations) {
							t.Errorf("the server got the operations %v, want %v", st.Operations, b.Operations)
						}
					}
					if locks.Len() != n || locks.Holder(1<<62) == nil || len(*sent) != 2 {
						t.Errorf("%d keys are held after %d statements", locks.Len(), len(*sent))
					}
				})
			})
		}
	}
}

// written has what was written to it.
type written struct {
	net.Conn
	writes []int // the bytes of each write
}

func (w *written) Write(b []byte) (int, error) {
	w.writes = append(w.writes, len(b))
	return len(b), nil
}

// The server does not end the session of a client that falls silent in the middle of a statement of several messages, so these
// are never in two segments.
func TestAStatementFitsOneSegment(t *testing.T) {
	for _, op := range []wire.Operation{0, wire.Release, wire.Shared | wire.Pair | wire.Release} {
		most := wire.PlainKeys
		if op&^wire.Release != 0 {
			most = wire.MixedKeys
		}
		for n := 1; n <= most; n++ {
			socket := &written{Conn: new(net.TCPConn)} // closed, for all else
			c := wire.NewConn(socket, pgproto3.NewFrontend(nil, socket), 1<<32-1, 1<<31-1)
			var b wire.Batch
			for i := range n {
				b.Add(op, -1<<63+int64(i))
			}
			must.Succeed(t, c.SendBatch(&b))
			must.Succeed(t, c.SendQuestion(&b))
			if len(socket.writes) != 2 || slices.Max(socket.writes) > 1460 {
				t.Errorf("operation %d, %d keys: written %d", op, n, socket.writes)
			}
		}
	}
}

// A question changes nothing.
func TestQuestionAsksForEachKey(t *testing.T) {
	inBubble(t, carryOut, func(t *testing.T, c *wire.Conn, locks *wiretest.Locks, _ *wiretest.Server, _ *[]wiretest.Statement) {
		var held, asked wire.Batch
		held.Add(0, 1)
		must.Succeed(t, c.SendBatch(&held))
		receive(t, c)
		asked.Add(wire.Release, 1)
		asked.Add(0, 2)
		must.Succeed(t, c.SendQuestion(&asked))
		got, err := receive(t, c).Bools(nil, 2)
		if want := []bool{true, false}; err != nil || !slices.Equal(got, want) || locks.Len() != 1 {
			t.Errorf("got %v, %v, and %d keys are held", got, err, locks.Len())
		}
	})
}

// An argument is not looked at for further parameters, and cannot end its quotes.
func TestQueryArgumentsStayInTheirQuotes(t *testing.T) {
	inBubble(t, carryOut, func(t *testing.T, c *wire.Conn, _ *wiretest.Locks, _ *wiretest.Server, sent *[]wiretest.Statement) {
		must.Succeed(t, c.SendQuery("SELECT $1, $2, $1", "$2'; DROP --", "it's $1"))
		receive(t, c)
		if got, want := (*sent)[0].SQL, "SELECT '$2''; DROP --', 'it''s $1', '$2''; DROP --'"; got != want {
			t.Errorf("the server got %s, want %s", got, want)
		}
	})
}

func TestReceiveAnErrorLeavesTheSessionUsable(t *testing.T) {
	fails := func(st wiretest.Statement) wiretest.Verdict {
		if st.SQL == "fails" {
			return wiretest.Verdict{Code: "57014"}
		}
		return wiretest.Verdict{}
	}
	inBubble(t, fails, func(t *testing.T, c *wire.Conn, _ *wiretest.Locks, server *wiretest.Server, _ *[]wiretest.Statement) {
		must.Succeed(t, c.SendQuery("fails"))
		a := receive(t, c)
		if pg, ok := errors.AsType[*pgconn.PgError](a.Error()); !ok || pg.Code != "57014" {
			t.Errorf("the error is %v", a.Error())
		}
		if value, some := a.Value(); some {
			t.Errorf("there is a value %q", value)
		}
		go server.Say(&pgproto3.NoticeResponse{Severity: "WARNING", Message: "ignored"}, &pgproto3.ParameterStatus{Name: "x", Value: "y"})
		must.Succeed(t, c.SendQuery("works"))
		a.Reset()
		must.Succeed(t, c.Receive(a))
		if value, some := a.Value(); value != "1" || !some || a.Error() != nil {
			t.Errorf("then it is %q, %v, %v", value, some, a.Error())
		}
	})
}

// A server says that it ends the session before it frees the locks, perhaps in the middle of an answer.
func TestReceiveTellsOfTheEndBeforeTheLocksAreFree(t *testing.T) {
	for name, verdict := range map[string]wiretest.Verdict{"instead of an answer": {Fatal: true}, "in an answer": {Fatal: true, Half: true}} {
		t.Run(name, func(t *testing.T) {
			ends := func(st wiretest.Statement) wiretest.Verdict {
				if strings.Contains(st.SQL, "ends") {
					return verdict
				}
				return wiretest.Verdict{}
			}
			inBubble(t, ends, func(t *testing.T, c *wire.Conn, locks *wiretest.Locks, server *wiretest.Server, _ *[]wiretest.Statement) {
				var b wire.Batch
				b.Add(0, 1)
				must.Succeed(t, c.SendBatch(&b))
				receive(t, c)
				must.Succeed(t, c.SendQuery("ends"))
				err := c.Receive(new(wire.Answer))
				if pg, ok := errors.AsType[*pgconn.PgError](err); !ok || pg.Code != "57P01" {
					t.Errorf("the error is %v", err)
				}
				if locks.Holder(1) != server {
					t.Error("the lock was free before the client knew")
				}
			})
		})
	}
}

// What is no answer to a batch ends the trust in the session.
func TestBoolsRefusesWhatIsNoAnswer(t *testing.T) {
	for name, test := range map[string]struct {
		messages []pgproto3.BackendMessage
		n        int
		is       error
		says     string
	}{
		"no row":       {nil, 1, driver.ErrPooler, ""},
		"NULL":         {[]pgproto3.BackendMessage{row(nil)}, 1, driver.ErrPooler, ""},
		"a row, NULL":  {[]pgproto3.BackendMessage{row([]byte("t")), row(nil)}, 2, driver.ErrPooler, ""},
		"too few":      {[]pgproto3.BackendMessage{row([]byte("{t,f}"))}, 3, nil, "2 of 3 keys"},
		"too many":     {[]pgproto3.BackendMessage{row([]byte("{t,f}"))}, 1, nil, "2 of 1 keys"},
		"other things": {[]pgproto3.BackendMessage{row([]byte("{t,x}"))}, 2, nil, "unexpected answer"},
	} {
		t.Run(name, func(t *testing.T) {
			client, server := net.Pipe()
			defer func() { _, _ = client.Close(), server.Close() }()
			c, back := wire.NewConn(client, pgproto3.NewFrontend(client, client), 1, 1), pgproto3.NewBackend(server, server)
			for _, m := range append(test.messages, &pgproto3.ReadyForQuery{TxStatus: 'I'}) {
				back.Send(m)
			}
			flushed := make(chan error, 1)
			go func() { flushed <- back.Flush() }()
			got, err := receive(t, c).Bools(nil, test.n)
			must.Succeed(t, <-flushed)
			if err == nil || test.is != nil && !errors.Is(err, test.is) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
}

func row(value []byte) *pgproto3.DataRow { return &pgproto3.DataRow{Values: [][]byte{value}} }

func TestRefusalNamesTheOutcome(t *testing.T) {
	for outcome, want := range map[string]error{
		"granted": nil, "pglock_pooler": driver.ErrPooler, "pglock_standby": driver.ErrStandby,
	} {
		if err := wire.Refusal(outcome); !errors.Is(err, want) {
			t.Errorf("%s: %v", outcome, err)
		}
	}
	if err := wire.Refusal("a stranger's"); err == nil || !strings.Contains(err.Error(), "a stranger's") {
		t.Errorf("an unknown outcome: %v", err)
	}
}
