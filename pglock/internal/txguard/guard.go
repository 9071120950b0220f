// Package txguard ties a transaction to a session lock, so that what the transaction writes cannot be stale. All that it
// needs of the session that holds the lock is to run statements there. queries/guard.sql has the statements and says why
// they are enough.
package txguard

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/internal/lockkeys"
	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// Session is the server session that holds a lock.
type Session struct {
	// Server tells the session's server and database apart from others, as queries/sessions.sql does.
	Server string
	// Identity is the second integer of the pair key that the session has held since it was opened; 0 if its role may not.
	Identity int32
	// Run runs a statement with arguments in text form, and returns the one column of its one row. It returns when ctx ends,
	// although the statement may still run. The error matches [driver.ErrLost] when the session has ended.
	Run func(ctx context.Context, sql string, args ...string) (string, error)
}

// Lock is the lock that guards a transaction.
type Lock struct {
	Keys   []driver.KeyID
	Shared bool
	// First says that guarded transactions of earlier holders may still run: they are waited for.
	First bool
}

// Guard ensures that tx cannot commit if the session has ended and its locks may have been granted to others, and that
// guarded transactions of later holders wait for tx. It makes one round trip on tx and then one on the session.
//
// The error matches [driver.ErrLost] when the session has ended, and [driver.ErrStaleSnapshot] for a transaction above READ
// COMMITTED, which can continue. After any other error the caller must make sure that tx does not commit.
func Guard(ctx context.Context, tx pgx.Tx, s Session, l Lock) error {
	if s.Identity == 0 {
		return fmt.Errorf("%w: the role of the lock session may not call pg_try_advisory_lock", driver.ErrUnsupported)
	}
	guarded, err := l.statement(ctx, tx, s.Server, s.Identity)
	switch {
	case isRefusal(err):
		if err := s.prove(ctx); err != nil {
			return err
		}
		return fmt.Errorf("%w, which is still held", driver.ErrOtherServer)
	case err != nil:
		return sqlstate.Explain(sqlstate.EndedBy(ctx, err))
	case !guarded:
		return fmt.Errorf("%w: the transaction is REPEATABLE READ or SERIALIZABLE (use READ COMMITTED)", driver.ErrStaleSnapshot)
	}
	// The statement has been answered, so the companions are held: only an answer to what is sent now proves anything.
	return s.prove(ctx)
}

// statement runs the statements of the guard in tx.
func (l Lock) statement(ctx context.Context, tx pgx.Tx, server string, object int32) (guarded bool, err error) {
	own := l.companions(l.Shared)
	if !l.First {
		tag, err := tx.Exec(ctx, lockdb.GuardTx, own, server, lockkeys.IdentityClass, object)
		return tag.RowsAffected() == 1, err
	}
	args := []any{l.earlier(), own, server, lockkeys.IdentityClass, object}
	if isOneMessage(tx.Conn()) {
		tag, err := tx.Exec(ctx, firstGuard, append([]any{pgx.QueryExecModeSimpleProtocol}, args...)...)
		return tag.RowsAffected() == 1, err
	}
	savepoint, err := tx.Begin(ctx)
	if err != nil {
		return false, err
	}
	if err := lockdb.New(savepoint).AwaitEarlier(ctx, l.earlier()); err != nil {
		return false, err
	}
	if err := savepoint.Rollback(ctx); err != nil {
		return false, err
	}
	tag, err := tx.Exec(ctx, lockdb.GuardTx, args[1:]...)
	return tag.RowsAffected() == 1, err
}

// isOneMessage reports whether several statements can be sent as one message: with the simple protocol, in which pgx writes
// arguments into the text, and not by drivers that are not known.
func isOneMessage(conn *pgx.Conn) bool {
	return conn != nil && conn.PgConn().ParameterStatus("client_encoding") == "UTF8" &&
		conn.PgConn().ParameterStatus("standard_conforming_strings") == "on"
}

// earlier returns the keys that guarded transactions of earlier holders lock, in order. An exclusive lock waits for both
// kinds of transactions, a shared one only for those of exclusive locks.
func (l Lock) earlier() []int64 {
	earlier := l.companions(false)
	if !l.Shared {
		earlier = append(earlier, l.companions(true)...)
		slices.Sort(earlier)
	}
	return earlier
}

// firstGuard is the message. The parameters of its last statement follow the one of the second.
var firstGuard = strings.Join([]string{
	lockdb.BeginAwaitEarlier, lockdb.AwaitEarlier, lockdb.EndAwaitEarlier, lockdb.ForgetAwaitEarlier,
	strings.NewReplacer("$1", "$2", "$2", "$3", "$3", "$4", "$4", "$5").Replace(lockdb.GuardTx),
}, ";\n")

// companions returns, in order, the keys that a transaction locks when a lock of l's keys, shared or not, guards it.
func (l Lock) companions(shared bool) []int64 {
	numbers := make([]int64, len(l.Keys))
	for i, key := range l.Keys {
		numbers[i] = lockkeys.Companion(key, shared)
	}
	slices.Sort(numbers)
	return numbers
}

// prove returns nil if the session was alive when prove was called.
func (s Session) prove(ctx context.Context) error {
	_, err := s.Run(ctx, lockdb.Heartbeat)
	return err
}

// isRefusal reports whether the guard's statement found that the session was gone. The name is in the message
// whatever lc_messages is; the words and the quotes around it vary.
func isRefusal(err error) bool {
	server := sqlstate.Refusal(err)
	return server.Code == sqlstate.UndefinedObject && strings.Contains(server.Message, lostSetting)
}

// lostSetting is the setting that the statement reads to raise an error (queries/guard.sql).
const lostSetting = "pglock_lost"
