package pglock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pglock-toolkit/pglock/internal/shorttext"
	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/refusal"
)

// txOutcome is what a statement of queries/locks.sql returns for a lock.
type txOutcome string

const (
	txGranted        txOutcome = "granted"
	txHeld           txOutcome = "held"
	txRefusedStandby txOutcome = refusal.Standby
	txRefusedStale   txOutcome = refusal.Stale
	txRefusedHeld    txOutcome = "pglock_held" // in a batch, where txHeld is an error
)

func (o txOutcome) err() error {
	switch o {
	case txGranted:
		return nil
	case txHeld, txRefusedHeld:
		return &WaitError{}
	}
	if err := refusal.Of(string(o)); err != nil {
		return err
	}
	return fmt.Errorf("unexpected answer %s from the server", shorttext.Quote(string(o)))
}

// txRequest is what was asked for, and when.
type txRequest struct {
	keys  []Key
	waits bool
	at    driver.Instant
}

func newTxRequest(waits bool, keys ...Key) txRequest { return txRequest{keys, waits, driver.Now()} }

// result turns the server's answer into an error that names the request.
func (r txRequest) result(ctx context.Context, o txOutcome, err error) error {
	if err == nil {
		err = o.err()
	}
	if err == nil {
		return nil
	}
	err = TxError(sqlstate.EndedBy(ctx, err))
	wait := (*WaitError)(nil)
	if !errors.As(err, &wait) {
		return failed("lock", r.keys[0], len(r.keys)-1, err)
	}
	wait.Keys = slices.Clone(r.keys)
	if r.waits {
		wait.Waited = driver.Now().Sub(r.at)
	}
	return wait
}

// TxError maps an error of a transaction's lock to this package's: a wait that lock_timeout or a context ended
// becomes a *[WaitError], without the key, which is unknown. A refusal becomes [ErrStandby] or [ErrStaleSnapshot], a
// full lock table [ErrTooManyLocks], and the end of the connection [ErrUnavailable]. Other errors, and nil, are
// returned unchanged: among them a statement that statement_timeout or pg_cancel_backend has ended (57014). It is
// for results of [QueueLockTx] that are read by hand, and also maps errors of other drivers than pgx (see package
// sqltx).
func TxError(err error) error {
	if err == nil || errors.As(err, new(*WaitError)) || errors.Is(err, ErrUnavailable) {
		return err
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return &WaitError{Err: err}
	}
	switch server := sqlstate.Refusal(err); server.Code {
	case sqlstate.LockNotAvailable:
		return &WaitError{Err: err}
	case sqlstate.UndefinedObject:
		for _, refused := range []txOutcome{txRefusedStandby, txRefusedStale, txRefusedHeld} {
			if strings.Contains(server.Message, string(refused)) { // the rest of the text depends on lc_messages
				return refused.err()
			}
		}
	}
	return sqlstate.Explain(err)
}
