package mux

import (
	"context"
	"errors"

	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/wire"
)

// op is one operation that a caller requests of a session.
type op struct {
	kind  kind
	grant *Grant // of a try or a release
	query *query // of a call

	wake chan signal // to the caller

	// Under the session's mu:
	state   state
	gone    bool          // its caller takes no rights any more
	left    chan struct{} // made when its caller leaves without the answer; closed when nothing is left to be done
	failure error         // of a try that came to a part of its keys, which are being given back
	retried bool          // after a cancelled statement
	err     error         // the answer
}

type kind uint8

const (
	try kind = iota
	release
	call
)

type state uint8

const (
	queued state = iota
	sent
	answered
)

// signal is what a caller is woken for.
type signal uint8

const (
	haveAnswer signal = iota
	maySend
	mayRead
)

// query is a statement of its own kind: SQL, or the question what the session holds of a batch.
type query struct {
	sql    string
	args   []string
	about  *batch
	answer wire.Answer
}

// batch is what one statement carries.
type batch struct {
	ops    []*op
	leader *op // its caller reads the answer when it is its turn; nil: no caller does
	sentAt driver.Instant
	query  *query // a call, or
	wire.Batch
}

// newOp makes an op, of what earlier ones have left.
func (s *Session) newOp(kind kind, g *Grant) *op {
	o, ok := s.ops.Get().(*op)
	if !ok {
		o = &op{wake: make(chan signal, 3)} // room for an answer and both rights
	}
	*o = op{kind: kind, grant: g, wake: o.wake}
	return o
}

// waitsLocked reports whether the op's caller can be given a right.
func (o *op) waitsLocked() bool { return !o.gone }

// errEnded marks an op that the session's end left without an answer. A try can be made elsewhere.
type errEnded struct{ error }

func (e errEnded) Unwrap() error { return e.error }

func hasEnded(err error) bool {
	_, ok := errors.AsType[errEnded](err)
	return ok
}

var (
	errNoConnection = errors.New("no connection yet")
	errNoAnswer     = errors.New("no answer")
)

// noAnswer is the error of a call that the end of ctx has left without an answer, or without a connection, as why says.
func noAnswer(ctx context.Context, why error) error {
	return unavailable{why, context.Cause(ctx)}
}

// unavailable says that the server did not answer in time. It matches [driver.ErrUnavailable] and what ended the wait.
type unavailable struct{ why, cause error }

func (e unavailable) Error() string {
	return driver.ErrUnavailable.Error() + ": " + e.why.Error() + ": " + e.cause.Error()
}

func (e unavailable) Unwrap() []error { return []error{driver.ErrUnavailable, e.why, e.cause} }
