package once

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/internal/shorttext"
	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/internal/records"
)

// Key returns the key of the advisory lock that guards the work named by scope and id, for [pglock.TryLockTx] and
// the monitor.
func Key(scope, id string) pglock.Key { return pglock.NewKey("once:" + scope + "/" + id) }

// Tx returns nil in the first transaction that asks for id in scope, and records that the work has been done; the
// record takes effect when tx commits. Later transactions get a *[DoneError] that matches [ErrDone] or [ErrMismatch],
// and can continue. A transaction that asks before tx has ended waits for it, within [MaxWait].
//
// It takes one round trip if it does not have to wait. The first use on a connection takes another, in which pgx
// prepares the statement, unless the connection's query execution mode does not prepare. See also [WithTrustedOwner].
//
// scope says what kind of work it is (the name of a consumer, or an HTTP route and the account), and id which piece of
// it; equal ids in different scopes are different. Neither may be empty; they have at most 256 and 1024 bytes.
//
// The record is undone if tx rolls back, or rolls back to an earlier savepoint; then another transaction can be the
// first. Two transactions that ask for several ids in different orders can deadlock, as with rows: PostgreSQL
// aborts one of them (40P01), and nothing it did remains. After an error from the server or the context, tx cannot
// be used.
func Tx(ctx context.Context, tx pgx.Tx, scope, id string, opts ...Option) error {
	c, err := prepare(tx, scope, id, opts)
	if err != nil {
		return err
	}
	said, err := c.ask(ctx, tx, scope, id, true)
	if err != nil {
		return err
	}
	return refusal(scope, id, said.Outcome, said.DoneAt.Time)
}

// Result is [Tx] for work that has a result: the first transaction runs fn in tx and records its result as JSON. A
// later one gets that result, with replayed true, and fn does not run. If fn fails, nothing is recorded, and Result
// returns fn's error: roll tx back. Work recorded by [Tx] has no result; for it the error matches [ErrDone].
//
// For as long as records are kept, the recorded JSON must fit T when it is read back, perhaps by a newer program.
func Result[T any](
	ctx context.Context, tx pgx.Tx, scope, id string, fn func(pgx.Tx) (T, error), opts ...Option,
) (v T, replayed bool, err error) {
	if fn == nil {
		return v, false, failed(scope, id, errors.New("the function is nil"))
	}
	c, err := prepare(tx, scope, id, opts)
	if err != nil {
		return v, false, err
	}
	said, err := c.ask(ctx, tx, scope, id, false)
	if err != nil {
		return v, false, err
	}
	switch {
	case said.Outcome == done && said.Result != nil:
		if err := json.Unmarshal(said.Result, &v); err != nil {
			var zero T
			return zero, false, failed(scope, id, fmt.Errorf("read the recorded result: %w", err))
		}
		return v, true, nil
	case said.Outcome != first:
		return v, false, refusal(scope, id, said.Outcome, said.DoneAt.Time)
	}
	if v, err = fn(tx); err != nil {
		return v, false, err
	}
	return v, false, c.keep(ctx, tx, scope, id, v)
}

// keep records v. No other transaction can have done so since the check: the lock is held until tx ends.
func (c config) keep(ctx context.Context, tx pgx.Tx, scope, id string, v any) error {
	result, err := json.Marshal(v)
	if err != nil {
		return failed(scope, id, fmt.Errorf("record the result: %w", err))
	}
	err = c.queries(tx).OnceRecord(ctx, lockdb.OnceRecordParams{
		Scope: scope, ID: id, Fingerprint: c.fingerprint, Result: result,
	})
	if err != nil {
		return failed(scope, id, fmt.Errorf("record the result: %w", sqlstate.ExplainSchema(sqlstate.EndedBy(ctx, err))))
	}
	return nil
}

// trusted remembers which schemas have been checked.
var trusted = records.Trust{Option: "once.WithTrustedOwner"}

func (c config) queries(db records.Sender) *lockdb.Queries {
	return records.Guarded{DB: db, Trust: &trusted, Owners: c.owners}.Queries()
}

func prepare(tx pgx.Tx, scope, id string, opts []Option) (config, error) {
	c, err := configure(scope, id, opts)
	if err == nil && tx == nil {
		err = errors.New("the transaction is nil")
	}
	if err != nil {
		return c, failed(scope, id, err)
	}
	return c, nil
}

// ask finds out what has been done. If another transaction has the lock, it waits for the lock and asks again: the wait
// is a statement of package pglock, which can bound it and name the holder. A try is refused while others wait, so they
// are not overtaken; by the second try this transaction already has the lock.
func (c config) ask(ctx context.Context, tx pgx.Tx, scope, id string, record bool) (lockdb.OnceRow, error) {
	queries := c.queries(tx)
	params := lockdb.OnceParams{Scope: scope, ID: id, Fingerprint: c.fingerprint, Record: record}
	said, err := queries.Once(ctx, params)
	if err == nil && said.Outcome == held {
		var wait []pglock.TxOption
		if c.bounded {
			wait = append(wait, pglock.MaxWait(max(c.maxWait, time.Millisecond)))
		}
		if err := pglock.LockTx(ctx, tx, Key(scope, id), wait...); err != nil {
			return said, err
		}
		said, err = queries.Once(ctx, params)
	}
	if err != nil {
		return said, failed(scope, id, explain(scope, id, sqlstate.EndedBy(ctx, err)))
	}
	return said, nil
}

// failed adds what was attempted to an error.
func failed(scope, id string, err error) error {
	return fmt.Errorf("pglock/once: %s of %s: %w", shorttext.Quote(id), shorttext.Quote(scope), shorttext.Error(err))
}
