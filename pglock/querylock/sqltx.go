package querylock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/internal/shorttext"
	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/txlock"
)

// SQLTx is [Tx] for a transaction of database/sql: it satisfies the DBTX interface that sqlc generates. It works with
// drivers whose errors have an SQLState method, as those of pgx and lib/pq do.
//
// database/sql has no batches, so the locks of a query are a separate statement, and a separate round trip, before
// the query. (One statement for both would read from a snapshot that is older than its lock.) Where a query has
// shared and exclusive locks there may be more. A refused lock aborts the transaction, as it does in a Tx; the option
// savepoint keeps it usable, at the price of two more round trips each time.
type SQLTx struct {
	tx  *sql.Tx
	set *Set
}

// SQLTx returns tx with locks. A nil tx is answered by the methods, with an error.
func (s *Set) SQLTx(tx *sql.Tx) *SQLTx { return &SQLTx{tx, s} }

// ExecContext takes the locks of a query and runs it.
func (t *SQLTx) ExecContext(ctx context.Context, query string, arguments ...any) (sql.Result, error) {
	if err := t.lock(ctx, query, arguments); err != nil {
		return nil, err
	}
	return t.tx.ExecContext(ctx, query, arguments...)
}

// QueryContext takes the locks of a query and runs it.
func (t *SQLTx) QueryContext(ctx context.Context, query string, arguments ...any) (*sql.Rows, error) {
	if err := t.lock(ctx, query, arguments); err != nil {
		return nil, err
	}
	return t.tx.QueryContext(ctx, query, arguments...)
}

// QueryRowContext takes the locks of a query and runs it. An error of the locks comes from the row's Scan and Err.
func (t *SQLTx) QueryRowContext(ctx context.Context, query string, arguments ...any) *sql.Row {
	if err := t.lock(ctx, query, arguments); err != nil {
		return failedRow(err)
	}
	return t.tx.QueryRowContext(ctx, query, arguments...)
}

// PrepareContext refuses: a prepared statement would run without its locks.
func (t *SQLTx) PrepareContext(context.Context, string) (*sql.Stmt, error) {
	return nil, fmt.Errorf("pglock: prepare: %w: a transaction with locks does not prepare statements "+
		"(set emit_prepared_queries: false)", pglock.ErrUnsupported)
}

// lock takes the locks of the query, if it has any.
func (t *SQLTx) lock(ctx context.Context, text string, arguments []any) error {
	if t == nil || t.tx == nil {
		return errNil
	}
	query, err := t.set.find(text)
	if err != nil || len(query.Locks) == 0 {
		return err
	}
	locks, err := query.locks(arguments)
	if err != nil {
		return err
	}
	if len(locks) == 0 {
		return nil
	}
	var caught txlock.Caught
	statements := txlock.Catch(ctx, &caught)
	if query.Savepoint {
		err = t.inSavepoint(statements, query, locks)
	} else {
		err = t.take(statements, query, locks)
	}
	if caught.Tx != nil { // the transaction is one of package locktest
		return lockRequest{query, locks}.send(ctx, caught.Tx, nil).Close()
	}
	if err != nil {
		return fmt.Errorf("query %s: %w", query.Name, err)
	}
	return nil
}

func (t *SQLTx) inSavepoint(ctx context.Context, query *Query, locks []wanted) error {
	if err := t.execute(ctx, "set a savepoint", lockdb.Savepoint); err != nil {
		return err
	}
	if err := t.take(ctx, query, locks); err != nil {
		return errors.Join(err, t.execute(ctx, "roll back to the savepoint", lockdb.RollbackToSavepoint, lockdb.ReleaseSavepoint))
	}
	return t.execute(ctx, "release the savepoint", lockdb.ReleaseSavepoint)
}

func (t *SQLTx) execute(ctx context.Context, what string, statements ...string) error {
	for _, statement := range statements {
		if _, err := t.tx.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("pglock: %s: %w", what, sqlstate.Explain(sqlstate.ToPgx(err)))
		}
	}
	return nil
}

func (t *SQLTx) take(ctx context.Context, query *Query, locks []wanted) error {
	for _, run := range runs(locks) {
		spaces, numbers := arrays(run.keys)
		statement, arguments := lockdb.QueueLockAllTx, []any{run.shared, spaces, numbers, false, false}
		switch {
		case query.Try:
			statement = lockdb.QueueTryLockAllTx
		case query.MaxWait > 0:
			statement = lockdb.QueueBoundedLockAllTx
			arguments = append([]any{query.MaxWait.Milliseconds()}, arguments...)
		}
		asked := driver.Now()
		if _, err := t.tx.ExecContext(ctx, statement, arguments...); err != nil {
			return waited(asked, query, refusal(run.keys, sqlstate.EndedBy(ctx, sqlstate.ToPgx(err))))
		}
	}
	return nil
}

// arrays are the keys as PostgreSQL's text form of arrays, which every driver can send.
func arrays(keys []pglock.Key) (spaces, numbers string) {
	var s, n []string
	for _, key := range keys {
		s, n = append(s, fmt.Sprint(int(driver.SpaceBigint))), append(n, fmt.Sprint(key.Int64()))
	}
	return "{" + strings.Join(s, ",") + "}", "{" + strings.Join(n, ",") + "}"
}

// refusal makes the server's answer an error of package pglock.
func refusal(keys []pglock.Key, err error) error {
	err = pglock.TxError(err)
	if wait := (*pglock.WaitError)(nil); errors.As(err, &wait) {
		wait.Keys = keys
		return err
	}
	return fmt.Errorf("pglock: lock %s: %w", shorttext.Quote(keys[0].String()), err)
}

// failedRow is a row whose Scan returns err. database/sql asks the context before all else, and returns its error.
func failedRow(err error) *sql.Row {
	return new(sql.Tx).QueryRowContext(failedContext{context.Background(), err}, "")
}

// failedContext is a context that has ended with one of our errors.
type failedContext struct {
	context.Context
	err error
}

var ended = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

func (failedContext) Done() <-chan struct{} { return ended }
func (c failedContext) Err() error          { return c.err }
