package locktest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/txlock"
)

// Tx is a transaction on a [Server]: pglock's LockTx, TryLockTx, LockAllTx and BeginFunc take their locks there, as QueueLockTx
// and its relatives do in a batch, and queries of a generated package (locks.Tx). GuardTx of a Lock of that Server guards it,
// and package once records in it what is done. All that is as on PostgreSQL. The locks end with the transaction, and
// those that were taken after a savepoint (Begin) also with its rollback.
//
// Statements go to the pgx.Tx that [Server.Tx] was given, for example a mock. Without one, Exec only records its statement
// for [Tx.Statements], and every method that would return rows returns an error. Methods may be called concurrently.
type Tx struct {
	server *Server
	inner  pgx.Tx // nil: statements are only recorded
	outer  *Tx    // of a savepoint

	// Under the Server's mu:
	held       []*grant
	aborted    error
	closed     bool
	statements []string
	marks      []int           // of savepoints that queries with locks set: how many of held are older
	records    map[work]record // of package once, until the end
}

// Begin begins a transaction whose statements are only recorded. With this method s is a pglock.TxBeginner.
func (s *Server) Begin(ctx context.Context) (pgx.Tx, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return s.Tx(nil), nil
}

// Tx returns a transaction whose statements go to inner, which is committed and rolled back with it. If inner is nil,
// statements are only recorded.
func (s *Server) Tx(inner pgx.Tx) *Tx { return &Tx{server: s, inner: inner} }

// root returns the outermost transaction.
func (t *Tx) root() *Tx {
	for t.outer != nil {
		t = t.outer
	}
	return t
}

// Statements returns the statements that Exec has recorded in the whole transaction.
func (t *Tx) Statements() []string {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	return slices.Clone(t.root().statements)
}

// LockTx implements [txlock.Tx]. Call pglock.LockTx.
func (t *Tx) LockTx(ctx context.Context, r txlock.Request) error {
	if err := t.usable(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	g := &grant{
		request: driver.Request{Keys: slices.Clone(r.Keys), Shared: r.Shared}, tx: t.root(), ready: make(chan struct{}),
	}
	if err := t.server.acquire(ctx, g, r.Wait); err != nil {
		return err
	}
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	if t.closed { // by another goroutine, meanwhile
		t.server.remove(g)
		return pgx.ErrTxClosed
	}
	t.held = append(t.held, g)
	return nil
}

// HoldersTx implements [txlock.Tx].
func (t *Tx) HoldersTx(_ context.Context, key driver.Key) ([]driver.Holder, error) {
	return t.server.holders(key), nil
}

// Abort implements [txlock.Tx]: from now on the transaction can only be rolled back.
func (t *Tx) Abort(why error) {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	t.aborted = why
}

// usable returns why no statement can be carried out.
func (t *Tx) usable() error {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	for tx := t; tx != nil; tx = tx.outer {
		switch {
		case tx.closed:
			return pgx.ErrTxClosed
		case tx.aborted != nil:
			return abortedBy(tx.aborted)
		}
	}
	return nil
}

// abortedBy returns the server's error of a statement in a transaction that an earlier error has aborted.
func abortedBy(earlier error) error {
	return fmt.Errorf("locktest: after %q: %w", earlier, &pgconn.PgError{Severity: "ERROR", Code: sqlstate.InFailedTransaction,
		Message: "current transaction is aborted, commands ignored until end of transaction block"})
}

// Commit implements [pgx.Tx]. A transaction that was aborted is rolled back, with [pgx.ErrTxCommitRollback].
func (t *Tx) Commit(ctx context.Context) error {
	err := t.usable()
	if errors.Is(err, pgx.ErrTxClosed) {
		return err
	}
	if err != nil {
		return errors.Join(pgx.ErrTxCommitRollback, t.Rollback(ctx))
	}
	if t.inner != nil {
		err = t.inner.Commit(ctx)
	}
	t.end(err == nil)
	return err
}

// Rollback implements [pgx.Tx].
func (t *Tx) Rollback(ctx context.Context) error {
	if err := t.usable(); errors.Is(err, pgx.ErrTxClosed) {
		return err
	}
	var err error
	if t.inner != nil {
		err = t.inner.Rollback(ctx)
	}
	t.end(false)
	return err
}

// end releases the locks, or leaves them to the transaction around a committed savepoint.
func (t *Tx) end(committed bool) {
	s := t.server
	s.mu.Lock()
	defer s.mu.Unlock()
	t.closed = true
	held := t.held
	t.held = nil
	if committed {
		t.publishLocked() // before others get the locks
	}
	if committed && t.outer != nil {
		t.outer.held = append(t.outer.held, held...)
		return
	}
	for _, g := range held {
		s.remove(g)
	}
	s.unguardLocked(t)
}

// Begin implements [pgx.Tx]: it sets a savepoint.
func (t *Tx) Begin(ctx context.Context) (pgx.Tx, error) {
	if err := t.usable(); err != nil {
		return nil, err
	}
	nested := &Tx{server: t.server, outer: t}
	if t.inner != nil {
		inner, err := t.inner.Begin(ctx)
		if err != nil {
			return nil, err
		}
		nested.inner = inner
	}
	return nested, nil
}

// Exec implements [pgx.Tx].
func (t *Tx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if isSavepoint(sql) {
		return pgconn.CommandTag{}, t.savepoint(sql)
	}
	if err := t.usable(); err != nil {
		return pgconn.CommandTag{}, err
	}
	if t.inner != nil {
		return t.inner.Exec(ctx, sql, args...)
	}
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	root := t.root()
	root.statements = append(root.statements, sql)
	return pgconn.CommandTag{}, nil
}

// Conn implements [pgx.Tx]. It returns nil if statements are only recorded.
func (t *Tx) Conn() *pgx.Conn {
	if t.inner == nil {
		return nil
	}
	return t.inner.Conn()
}

var _ interface {
	txlock.Tx
	txlock.Records
} = (*Tx)(nil)
