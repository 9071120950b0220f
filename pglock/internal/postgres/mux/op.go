package mux

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/wire"
)

// op is one operation that a caller requests of a session.
type op struct {
	kind  kind
	grant *Grant // of a try or a release
	query *query // of a call

	ctx  context.Context // of its caller
	wake chan bool       // true: answered; before that, at most once, false: ctx has ended

	// Under the session's mu:
	state   state
	told    bool           // that ctx has ended
	left    chan struct{}  // made when its caller leaves without the answer; closed when nothing is left to be done
	retried bool           // after a cancelled statement
	since   driver.Instant // when the caller of a release began to wait
	err     error          // the answer
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

// query is a statement other than a batch: SQL, or the question which keys of a batch the session holds.
type query struct {
	sql    string
	args   []string
	about  *batch
	answer wire.Answer
}

// batch is what one statement carries.
type batch struct {
	ops    []*op
	sentAt driver.Instant
	query  *query // a call, or
	wire.Batch
}

// batches keeps settled batches for reuse.
var batches = sync.Pool{New: func() any { return new(batch) }}

func (b *batch) recycle() {
	clear(b.ops)
	*b = batch{ops: b.ops[:0], Batch: b.Batch}
	b.Reset()
	batches.Put(b)
}

// newOp returns an op. It reuses a finished one if it can.
func (s *Session) newOp(ctx context.Context, kind kind, g *Grant) *op {
	o, ok := s.ops.Get().(*op)
	if !ok {
		o = &op{wake: make(chan bool, 2)}
	}
	*o = op{kind: kind, grant: g, ctx: ctx, wake: o.wake}
	return o
}

// errEnded is the error of an op that the session's end left without an answer. A try can be repeated on another session.
type errEnded struct{ error }

func (e errEnded) Unwrap() error { return e.error }

// HasEnded reports whether err says that a session ended before it answered, so that another one may be asked.
func HasEnded(err error) bool {
	_, ok := errors.AsType[errEnded](err)
	return ok
}

var (
	// ErrNoConnection is for a session that has not been opened yet.
	ErrNoConnection = errors.New("no connection yet")
	errNoAnswer     = errors.New("no answer")
)

// noAnswer returns the error of a call whose ctx ended before there was an answer, or a connection; why says which.
func noAnswer(ctx context.Context, why error) error {
	return fmt.Errorf("%w: %w: %w", driver.ErrUnavailable, why, context.Cause(ctx))
}
