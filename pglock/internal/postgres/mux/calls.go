package mux

import (
	"context"

	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/wire"
	"github.com/pglock-toolkit/pglock/pglock/internal/txguard"
)

// Try locks g's key, without waiting for its holder (driver.ErrNotAcquired).
func (s *Session) Try(ctx context.Context, g *Grant) error {
	if err := s.budget.reserve(g); err != nil {
		return err
	}
	return s.do(s.newOp(ctx, try, g))
}

// ReleaseAll releases grants of one session.
func ReleaseAll(grants []*Grant) []error {
	return grants[0].session.doAll(context.Background(), release, grants)
}

// release releases g's key.
func (s *Session) release(g *Grant) error { return s.do(s.newOp(context.Background(), release, g)) }

// Call runs a statement, and returns the first column of its answer; some reports whether there was a row. A
// caller whose ctx ends does not wait; a statement that has been sent is still carried out.
func (s *Session) Call(ctx context.Context, sql string, args ...string) (value string, some bool, err error) {
	q := &query{sql: sql, args: args}
	o := s.newOp(ctx, call, nil)
	o.query = q
	if err := s.do(o); err != nil {
		return "", false, err
	}
	value, some = q.answer.Value()
	return value, some, nil
}

// Ask is Call for a statement about locks that the session holds. If the session has ended, the error matches
// [driver.ErrLost]. The statement may run twice: one that is cancelled on the server (pg_cancel_backend) is repeated once.
func (s *Session) Ask(ctx context.Context, sql string, args ...string) (value string, err error) {
	value, _, err = s.Call(ctx, sql, args...)
	if sqlstate.Of(err) == sqlstate.QueryCanceled {
		value, _, err = s.Call(ctx, sql, args...)
	}
	if HasEnded(err) {
		return "", wire.LostBecause(err)
	}
	return value, explain(ctx, err)
}

// Server tells the session's server and database apart from others, as the answer to DrawFences does.
func (s *Session) Server() string { return s.conn.Server }

// Guard returns the session in the form that package txguard takes.
func (s *Session) Guard() txguard.Session {
	return txguard.Session{Server: s.conn.Server, Identity: s.conn.Identity, Run: s.Ask}
}
