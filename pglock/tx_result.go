package pglock

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// txOutcome is what a statement of queries/locks.sql says of a lock.
type txOutcome string

const (
	unknown        txOutcome = ""
	granted        txOutcome = "granted"
	held           txOutcome = "held"
	refusedStandby txOutcome = "pglock_standby"
	refusedStale   txOutcome = "pglock_stale_snapshot"
	refusedHeld    txOutcome = "pglock_held" // in a batch, where held is an error
	timedOut       txOutcome = "timed out"   // by the session's own lock_timeout
)

func (o txOutcome) err() error {
	switch o {
	case granted:
		return nil
	case held, refusedHeld:
		return &WaitError{}
	case timedOut:
		return &WaitError{Err: errOwnTimeout}
	case refusedStandby:
		return fmt.Errorf("%w: its advisory locks exclude only sessions of that server "+
			"(connect to the primary, or use AllowStandby)", ErrStandby)
	case refusedStale:
		return fmt.Errorf("%w: the transaction is REPEATABLE READ or SERIALIZABLE "+
			"(use READ COMMITTED, or AllowStaleSnapshot)", ErrStaleSnapshot)
	}
	return fmt.Errorf("unexpected answer %q from the server", string(o))
}

// txRequest is what was asked for, and when.
type txRequest struct {
	keys  []Key
	waits bool
	at    driver.Instant
}

func ask(waits bool, keys ...Key) txRequest { return txRequest{keys, waits, driver.Now()} }

// result makes the answer to the request an error of this package that says what was asked for.
func (r txRequest) result(ctx context.Context, o txOutcome, err error) error {
	if err == nil {
		err = o.err()
	}
	if err == nil {
		return nil
	}
	key, more := r.keys[0], len(r.keys)-1
	if n, ok := lockdb.HeldKey(serverError(err).Message); ok && n <= len(r.keys) {
		key = r.keys[n-1]
	}
	err = TxError(endedBy(ctx, err))
	wait := (*WaitError)(nil)
	if !errors.As(err, &wait) {
		return failed("lock", key, more, err)
	}
	wait.Key, wait.More = key, more
	if r.waits {
		wait.Waited = driver.Now().Sub(r.at)
	}
	return wait
}

// endedBy adds why ctx ended to an error that its end has caused. pgx leaves out the cause of a context, and where it
// is configured to cancel the statement on the server it returns the server's error alone.
func endedBy(ctx context.Context, err error) error {
	if ctx.Err() == nil || (serverError(err).Code != codeQueryCanceled && !errors.Is(err, ctx.Err())) {
		return err
	}
	for _, why := range []error{ctx.Err(), context.Cause(ctx)} {
		if !errors.Is(err, why) {
			err = fmt.Errorf("%w: %w", why, err)
		}
	}
	return err
}

// TxError maps an error of a transaction's lock to this package's: a wait that lock_timeout or a context ended becomes
// a *[WaitError] (without a key, which is unknown), a refusal by a guard [ErrStandby] or [ErrStaleSnapshot], a full
// lock table [ErrTooManyLocks]. Other errors, and nil, are returned unchanged. It is for results of [QueueLockTx] that
// are read by hand.
func TxError(err error) error {
	if err == nil || errors.As(err, new(*WaitError)) {
		return err
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return &WaitError{Err: err}
	}
	switch server := serverError(err); server.Code {
	case codeLockNotAvailable:
		return &WaitError{Err: err}
	case codeOutOfMemory:
		return fmt.Errorf("%w: the server's lock table is full (raise max_locks_per_transaction): %w", ErrTooManyLocks, err)
	case codeUndefinedObject:
		for _, refusal := range []txOutcome{refusedStandby, refusedStale, refusedHeld} {
			if strings.Contains(server.Message, string(refusal)) { // the rest of the text depends on lc_messages
				return refusal.err()
			}
		}
	}
	return err
}

// serverError is the server's part of err; zero when it has none.
func serverError(err error) pgconn.PgError {
	if server := (*pgconn.PgError)(nil); errors.As(err, &server) {
		return *server
	}
	return pgconn.PgError{}
}

// Codes of https://www.postgresql.org/docs/current/errcodes-appendix.html.
const (
	codeLockNotAvailable = "55P03" // lock_timeout
	codeQueryCanceled    = "57014" // among others, a cancel request
	codeOutOfMemory      = "53200" // among others, the shared lock table is full
	codeUndefinedObject  = "42704" // among others, a setting of an unknown name
)
