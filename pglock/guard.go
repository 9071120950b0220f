package pglock

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// GuardTx ties tx to the lock, so that what tx writes cannot be stale. If the lock has already been lost, the error
// matches [ErrLost] (after an Unlock [ErrUnlocked]), and tx is aborted and cannot commit. If it is lost afterwards,
// the next holder's guarded transactions wait until tx has ended. So the guarded transactions of successive holders
// never overlap. A holder that has not learned of its loss cannot overwrite what its successor wrote. The guarded
// transactions of one Lock may run at the same time, and so may those of holders that share a key.
//
// Call it first in every transaction that writes what the lock protects. It protects only if every writer does so.
// Commit before you unlock, or the next holder waits for the commit.
//
// GuardTx makes one round trip on tx and one on the lock's own session, and needs nothing installed. It waits, for as
// long as ctx allows, for the guarded transactions of earlier holders. If an earlier holder was cut off inside its
// transaction, that takes two hours with the default TCP keepalives. To bound it, set idle_in_transaction_session_timeout
// where transactions are guarded: in the pool's RuntimeParams or for the role. A session's own lock_timeout ends the
// wait with [ErrNotAcquired]. GuardTx also shows that both connections reach the same server and database
// ([ErrOtherServer]). Until it ends, tx holds one more advisory lock for each key, which [WithMaxHeld] does not count;
// as with [LockTx], a full lock table is [ErrTooManyLocks].
//
// A REPEATABLE READ or SERIALIZABLE transaction is refused with [ErrStaleSnapshot], and can continue without the guard.
// A nested pgx.Tx is refused too: the rollback of its savepoint would end the guard but not the transaction. A
// SAVEPOINT that was sent as SQL, or a Tx of another package that hides one, cannot be seen; so guard a transaction
// before its first savepoint. After any other error roll tx back. Backends that cannot do it return [ErrUnsupported].
//
// So much for session locks. For a lock in a row (package rowlock, docs/rowlock.md) GuardTx locks that row in tx, and
// takes an advisory lock only so that deadlock detection sees the transaction. It needs the schema, and
// makes one round trip, on tx. It waits for no earlier holder, since no process gets the lock before the guarded
// transactions of others have ended. A REPEATABLE READ or SERIALIZABLE transaction is guarded if it began after the
// lock was granted, and otherwise [ErrStaleSnapshot]; a read-only one is [ErrUnsupported]. A lock that has guarded a
// transaction is not handed off within the process: the next Lock has it when tx has ended.
func (l *Lock) GuardTx(ctx context.Context, tx pgx.Tx) error {
	const attempt = "guard a transaction by"
	guard, ok := l.hold.locker.backend.(driver.TxGuard)
	switch {
	case !ok:
		return l.says(attempt, fmt.Errorf("%w by this backend", ErrUnsupported))
	case tx == nil:
		return l.says(attempt, errors.New("the transaction is nil"))
	case isNested(tx):
		return l.says(attempt, errNestedTx)
	}
	once := inOneRoundTrip(tx)
	if err := l.Err(); err != nil {
		return l.says(attempt, abortTx(ctx, once, err))
	}
	switch err := l.guard(ctx, once, guard); {
	case errors.Is(err, ErrStaleSnapshot):
		return l.says(attempt, err)
	case err != nil:
		return l.failed(attempt, abortTx(ctx, once, err))
	}
	// The server checks the session only. This lock is one of many on it, and may have ended meanwhile.
	if err := l.Err(); err != nil {
		return l.says(attempt, abortTx(ctx, once, err))
	}
	return nil
}

// guard calls the backend. The first transaction of a Lock may have to wait for those of earlier holders, in which case
// the others of the Lock wait for it.
func (l *Lock) guard(ctx context.Context, tx pgx.Tx, guard driver.TxGuard) error {
	defer watchTx(l.hold.locker.config.env.Logger, l.hold.locker.config.warnAfter, l.name())()
	if !guard.GuardsInOrder() {
		for _, h := range l.holds() {
			h.keep()
		}
	}
	if l.guarded.Load() {
		return guard.GuardTx(ctx, tx, l.grants(), false)
	}
	l.mu.Lock()
	if l.guarding == nil {
		l.guarding = make(chan struct{}, 1)
	}
	l.mu.Unlock()
	select {
	case l.guarding <- struct{}{}:
		defer func() { <-l.guarding }()
	case <-ctx.Done():
		return fmt.Errorf("another call for this lock has not been answered: %w", context.Cause(ctx))
	}
	if err := guard.GuardTx(ctx, tx, l.grants(), !l.guarded.Load()); err != nil {
		return err
	}
	l.guarded.Store(true)
	return nil
}

// keep sees to it that h is not handed off. If the Lock has ended meanwhile, and h was handed off before, the
// transaction is aborted, since GuardTx checks the Lock again when the server has answered.
func (h *hold) keep() {
	if h.shared {
		return // guarded transactions of shared locks run side by side
	}
	h.locker.lock(h.groups)
	defer h.locker.unlock(h.groups)
	h.kept = true
}

// abortTx makes a transaction fail, so that it cannot commit, even if ctx has ended, and returns the reason. If no
// answer comes in time, pgx closes the connection, and the server rolls back.
func abortTx(ctx context.Context, tx pgx.Tx, why error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortWithin)
	defer cancel()
	_ = lockdb.New(tx).AbortGuarded(ctx) // an error is the purpose
	return why
}

const abortWithin = 5 * time.Second

var errNestedTx = errors.New("the transaction is nested, so that a rollback to its savepoint would end the guard " +
	"(guard the outermost one, before its first savepoint)")

// isNested reports whether tx is what Begin of a pgx.Tx returns: a savepoint. pgx does not export the type.
func isNested(tx pgx.Tx) bool {
	t := reflect.TypeOf(tx)
	return t.Kind() == reflect.Pointer && t.Elem().Name() == "dbSimulatedNestedTx"
}
