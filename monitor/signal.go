package monitor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/monitordb"
	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/internal/timing"
	"github.com/pglock-toolkit/pglock/internal/trust"
	"github.com/pglock-toolkit/pglock/pglock"
)

// Terminate ends a session or process, and no other, and then checks what became of its locks.
//
// Of a session all locks are freed, including those that it took after the snapshot. A process with locks in rows
// goes on: all these locks are free at once, except those that guard a transaction, which are free after its end. It
// learns of the loss at its next call or renewal, within a third of its lease. Until then [pglock.Lock.GuardTx] and
// fencing tokens keep its writes in order. It may take locks again, as another holder.
//
// For a session the role needs membership in the session's role or in pg_signal_backend; only a superuser can signal a
// superuser's session. For a process it needs EXECUTE on pglock.lease_terminate and SELECT on pglock.fence. As for
// [Take], db must not be in a transaction. A connection cannot signal itself. The statement that signals checks again
// that the session is t.Ref. Between that check and the server's kill(2) there is still an instant in which the process
// can end and its number can be reused.
//
// If nothing was signalled, the Outcome is empty and the error matches [ErrNoSession] or
// [ErrNotPermitted]. If the connection breaks, the error says that the signal may have been sent.
//
// Terminate then waits up to five seconds for the effect, since a process that is busy in the kernel or in an
// extension ends late. Then it takes a snapshot: the Outcome says who holds the locks now. If ctx ends or the
// connection breaks after the signal, there is an error and Outcome.Sent is true: the effect is unknown.
func Terminate(ctx context.Context, db pglock.DB, t Target, opts ...Option) (Outcome, error) {
	return signalTarget(ctx, db, t, signalTerminate, opts)
}

// Cancel ends the statement that a session runs. That ends a wait for a lock, and the locks of a transaction that fails
// with its statement. The session continues and keeps its session locks; an idle session keeps all its locks
// ([Target.CancelIsNoop]). A cancelled wait of a Locker of package pglock ends with ErrNotAcquired. A process with
// locks in rows runs no statement. All else is as for [Terminate].
func Cancel(ctx context.Context, db pglock.DB, t Target, opts ...Option) (Outcome, error) {
	return signalTarget(ctx, db, t, signalCancel, opts)
}

func signalTarget(ctx context.Context, db pglock.DB, t Target, signal string, opts []Option) (Outcome, error) {
	if db == nil {
		return Outcome{}, fmt.Errorf("monitor: cannot %s session %s: no connection (db is nil)", signal, t.Ref)
	}
	if inTransaction(db) {
		return Outcome{}, fmt.Errorf("monitor: cannot %s session %s: %w", signal, t.Ref, errInTransaction)
	}
	o := Outcome{Signal: signal, Target: t, Locks: []LockOutcome{}}
	end := send
	if t.Lease != nil {
		end = endProcess
	}
	if err := end(ctx, db, t, signal, opts); err != nil {
		return Outcome{}, fmt.Errorf("monitor: cannot %s session %s%s: %w", signal, t.Ref, serverText(db), err)
	}
	o.Sent = true
	if err := o.observe(ctx, db, opts); err != nil {
		return o, fmt.Errorf("monitor: the signal to %s session %s was sent%s, but its effect could not be seen: %w",
			signal, t.Ref, serverText(db), err)
	}
	return o, nil
}

func send(ctx context.Context, db pglock.DB, t Target, signal string, _ []Option) error {
	switch {
	case t.Since == nil && t.SignalledBy != "":
		return t.permitted()
	case t.PID <= 0 || t.Since == nil || t.Ref != t.SessionRef():
		return fmt.Errorf("%w: this is not what Snapshot.Target returned", ErrNoSession)
	}
	var verdict string
	err := reader{db}.send(ctx, func(batch *pgx.Batch) {
		batch.Queue(monitordb.SignalSession, t.PID, *t.Since, auxiliaries, signal == signalTerminate).
			QueryRow(func(row pgx.Row) error { return row.Scan(&verdict) })
	})
	switch {
	case sqlstate.Of(err) == sqlstate.InsufficientPrivilege:
		server := sqlstate.Refusal(err)
		return fmt.Errorf("%w: %w", cmp.Or(t.permitted(), ErrNotPermitted), &server)
	case err != nil:
		return maybeSent(err)
	}
	switch verdict {
	case "sent":
		return nil
	case "auxiliary":
		return fmt.Errorf(notASession, ErrNotPermitted, cmp.Or(t.BackendType, "own process"))
	case "own":
		return fmt.Errorf("%w: that is the session of this connection", ErrNotPermitted)
	case "gone":
		return fmt.Errorf("%w: it has ended", ErrNoSession)
	}
	return fmt.Errorf("%w: it has ended, and process %d is another session by now", ErrNoSession, t.PID)
}

// endProcess ends a process that uses locks in rows, if the owner of the function that does so is trusted. The ID of a
// process is never used again, so it needs no further check.
func endProcess(ctx context.Context, db pglock.DB, t Target, signal string, opts []Option) error {
	if signal != signalTerminate {
		return errors.New("a process with locks in rows runs no statement")
	}
	o, err := newConfig(opts)
	if err != nil {
		return err
	}
	r := reader{db}
	var ended bool
	var looked trust.Looked
	if err := r.send(ctx, func(batch *pgx.Batch) { trust.QueueLook(batch, o.trusted, &looked) }); err != nil {
		return err
	}
	if err := looked.Err(); err != nil {
		return err
	}
	err = sqlstate.ExplainSchema(r.send(ctx, func(batch *pgx.Batch) {
		looked.QueueSame(batch)
		batch.Queue(monitordb.EndHolder, t.Lease.Holder).QueryRow(func(row pgx.Row) error { return row.Scan(&ended) })
	}))
	switch {
	case sqlstate.Of(err) == sqlstate.InsufficientPrivilege:
		return fmt.Errorf("%w: the role needs EXECUTE on function pglock.lease_terminate(text): %w", ErrNotPermitted, err)
	case err == nil && !ended:
		return fmt.Errorf("%w: no process %s lives", ErrNoSession, t.Lease.Holder)
	}
	return err
}

// maybeSent adds to an error that the signal may have been sent, if the connection broke or the server ended the
// statement while it ran.
func maybeSent(err error) error {
	if sqlstate.Unsent(err) || sqlstate.Of(err) != "" && !sqlstate.In(err, sqlstate.ClassOperatorIntervention) {
		return err
	}
	return fmt.Errorf("%w (the signal may still have been sent)", err)
}

// The first and last pause between two checks whether a signal has had its effect, and how long to check.
const (
	firstPause = 10 * time.Millisecond
	lastPause  = 250 * time.Millisecond
	effectTime = 5 * time.Second
)

// observe waits for the effect of the signal, and then finds out what happened to the locks.
func (o *Outcome) observe(ctx context.Context, db pglock.DB, opts []Option) error {
	if o.Target.Lease != nil {
		o.Ended = true
	} else if err := o.waitForEffect(ctx, db); err != nil {
		return err
	}
	if len(o.Target.OtherWaiters) > 0 {
		timing.Sleep(ctx, lastPause) // one that waited for it may go on to wait for the next in its way
	}
	now, err := take(ctx, db, append(slices.Clone(opts), WithSession(o.Target.ID()))...)
	if err != nil {
		return err
	}
	o.compare(now)
	return nil
}

func (o *Outcome) waitForEffect(ctx context.Context, db pglock.DB) error {
	r, deadline := reader{db}, time.Now().Add(effectTime)
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		var left monitordb.SessionRemainsRow
		err := r.send(ctx, func(batch *pgx.Batch) {
			batch.Queue(monitordb.SessionRemains, o.Target.PID, *o.Target.Since).Query(readOne(&left))
		})
		if err != nil {
			return err
		}
		o.Ended = !left.Alive
		o.stateChanged = !left.StateChange.Time.Equal(value(o.Target.StateSince))
		if o.effectSeen(left) || time.Now().After(deadline) {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

// effectSeen reports whether the signal has had its effect. Cancelling an idle session has none.
func (o *Outcome) effectSeen(left monitordb.SessionRemainsRow) bool {
	switch {
	case !left.Alive:
		return true
	case o.Signal == signalTerminate:
		return false
	case len(o.Target.Waits) > 0:
		return !left.Waits
	case o.Target.CancelIsNoop():
		return true
	}
	return o.stateChanged
}
