package once

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/hooks"
	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/internal/shorttext"
	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/records"
)

// Tx returns nil in the first transaction that asks for id, and records that the work has been done; the record
// takes effect when tx commits. Later transactions get a *[DoneError] that matches [pglock.ErrDone] or
// [ErrMismatch], and can continue. A transaction that asks before tx has ended waits for it: for as long as ctx
// allows, or [pglock.MaxWait], rounded up to whole milliseconds. After that the error is a *[pglock.WaitError] that
// names the other, and the transaction can continue. With a MaxWait of zero the call does not wait.
// [pglock.WithObserver] reports the call. Other options are errors.
//
// It takes one round trip if it does not have to wait. The first use on a connection takes another, in which pgx
// prepares the statement, unless the connection's query execution mode does not prepare. See also [WithTrustedOwner].
//
// id says which piece of work it is; equal ids in different scopes are different. It has 1 to 1024 bytes.
//
// The record is undone if tx rolls back, or rolls back to an earlier savepoint; then another transaction can be the
// first. Two transactions that ask for several ids in different orders can deadlock, as with rows: PostgreSQL
// aborts one of them (40P01), and nothing it did remains. After an error from the server or the context, tx cannot
// be used.
func (s *Scope) Tx(ctx context.Context, tx pgx.Tx, id string, opts ...pglock.TxOption) error {
	c, err := s.begin(tx, id, opts)
	if err != nil {
		return err
	}
	said, err := c.ask(ctx, tx, true)
	if err == nil {
		err = c.refusal(said)
	}
	c.report(ctx, false, err)
	return err
}

// Result is [Scope.Tx] for work that has a result: the first transaction runs fn in tx and records its result as JSON.
// A later one gets that result, with replayed true, and fn does not run. If fn fails, nothing is recorded, and Result
// returns fn's error: roll tx back. Work recorded by Tx has no result; for it the error matches [pglock.ErrDone].
//
// For as long as records are kept, the recorded JSON must fit T when it is read back, perhaps by a newer program.
func Result[T any](
	ctx context.Context, tx pgx.Tx, s *Scope, id string, fn func(pgx.Tx) (T, error), opts ...pglock.TxOption,
) (v T, replayed bool, err error) {
	c, err := s.begin(tx, id, opts)
	if err == nil && fn == nil {
		err = s.failed(id, errors.New("the function is nil"))
	}
	if err != nil {
		return v, false, err
	}
	ran := false
	defer func() { c.report(ctx, ran, err) }()
	said, err := c.ask(ctx, tx, false)
	if err != nil {
		return v, false, err
	}
	switch {
	case said.Outcome == done && said.Result != nil:
		if err := json.Unmarshal(said.Result, &v); err != nil {
			var zero T
			return zero, false, s.failed(id, fmt.Errorf("read the recorded result: %w", err))
		}
		return v, true, nil
	case said.Outcome != first:
		return v, false, c.refusal(said)
	}
	ran = true
	if v, err = fn(tx); err != nil {
		return v, false, err
	}
	return v, false, c.record(ctx, tx, v)
}

// record records v. No other transaction can have done so since the check: the lock is held until tx ends.
func (c *call) record(ctx context.Context, tx pgx.Tx, v any) error {
	result, err := json.Marshal(v)
	if err != nil {
		return c.failed(c.id, fmt.Errorf("record the result: %w", err))
	}
	err = newQueries(tx, c.owners).OnceRecord(ctx, lockdb.OnceRecordParams{
		Scope: c.name, ID: c.id, Fingerprint: c.fingerprint, Result: result,
	})
	if err != nil {
		return c.failed(c.id, fmt.Errorf("record the result: %w", sqlstate.ExplainSchema(sqlstate.EndedBy(ctx, err))))
	}
	return nil
}

// call is one call.
type call struct {
	*Scope
	id    string
	began driver.Instant
	hooks.Settings
}

// begin checks the arguments of a call.
func (s *Scope) begin(tx pgx.Tx, id string, opts []pglock.TxOption) (*call, error) {
	if s == nil {
		return nil, errors.New("pglock/once: the Scope is nil")
	}
	o, err := hooks.ReadTxOptions(opts)
	switch {
	case err != nil:
	case o.Shared || o.AllowStale || o.AllowStandby:
		err = errors.New("the options of a call are MaxWait and WithObserver")
	case tx == nil:
		err = errors.New("the transaction is nil")
	default:
		err = records.CheckText("id", id, maxID)
	}
	if err != nil {
		return nil, s.failed(id, err)
	}
	return &call{s, id, driver.Now(), o}, nil
}

// ask finds out what has been done. If another transaction has the lock, it waits for the lock and asks again: the wait
// is a statement of package pglock, which can bound it and name the holder. A try is refused while others wait, so they
// are not overtaken; by the second try this transaction already has the lock.
func (c *call) ask(ctx context.Context, tx pgx.Tx, record bool) (lockdb.OnceRow, error) {
	queries := newQueries(tx, c.owners)
	params := lockdb.OnceParams{Scope: c.name, ID: c.id, Fingerprint: c.fingerprint, Record: record}
	said, err := queries.Once(ctx, params)
	if err == nil && said.Outcome == held {
		var wait []pglock.TxOption
		if c.Bounded {
			wait = append(wait, pglock.MaxWait(max(c.MaxWait, time.Millisecond)))
		}
		if err := pglock.LockTx(ctx, tx, pglock.NewKey("once:"+c.name+"/"+c.id), wait...); err != nil {
			return said, err
		}
		said, err = queries.Once(ctx, params)
	}
	if err != nil {
		return said, c.failed(c.id, sqlstate.ExplainSchema(pglock.TxError(sqlstate.EndedBy(ctx, err))))
	}
	return said, nil
}

// report reports the call to its Observer.
func (c *call) report(ctx context.Context, ran bool, err error) {
	if o := c.Observer.(pglock.Observer); o != nil {
		o(ctx, pglock.Event{
			Type: pglock.EventRecorded, Use: pglock.Use{Kind: pglock.UseOnce, Key: c.key}, ID: c.id, Ran: ran,
			Took: driver.Now().Sub(c.began), Err: err,
		})
	}
}

func newQueries(db records.Sender, owners []string) *lockdb.Queries {
	return records.Guarded{DB: db, Owners: owners}.Queries()
}

// failed adds what was attempted to an error.
func (s *Scope) failed(id string, err error) error {
	return fmt.Errorf("pglock/once: %s of %s: %w", shorttext.Quote(id), shorttext.Quote(s.name), shorttext.Error(err))
}
