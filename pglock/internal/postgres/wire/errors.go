package wire

import (
	"context"
	"errors"
	"fmt"

	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/internal/trust"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// Refusal turns the outcome of a guarded statement (queries/sessions.sql) into an error.
func Refusal(outcome string) error {
	switch outcome {
	case "granted":
		return nil
	case "pglock_pooler":
		return trust.Pooled()
	case "pglock_standby":
		return fmt.Errorf("%w: its advisory locks exclude only sessions of that server "+
			"(connect to the primary, or use AllowStandby)", driver.ErrStandby)
	}
	return fmt.Errorf("unexpected answer %q from the server", outcome)
}

// Classify makes an error of a statement match this library's sentinels.
func Classify(err error) error {
	if err = trust.Explain(err); err == nil || isClassified(err) {
		return err
	}
	switch sqlstate.Of(err) {
	case "": // the server has not answered, so it is the connection
		return fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	case sqlstate.OutOfMemory:
		return fmt.Errorf("%w: the server's lock table is full (raise max_locks_per_transaction): %w", driver.ErrTooManyLocks, err)
	case sqlstate.UndefinedTable, sqlstate.UndefinedFunction, sqlstate.InvalidSchemaName:
		return fmt.Errorf("%w (install it with: pglock migrate up): %w", driver.ErrSchemaMissing, err)
	case sqlstate.InsufficientPrivilege:
		return fmt.Errorf("%w: the role lacks a right on schema pglock (see the grants that \"pglock migrate print\" shows): %w",
			driver.ErrDenied, err)
	case sqlstate.QueryCanceled:
		return fmt.Errorf("%w: the statement was cancelled on the server: %w", driver.ErrUnavailable, err)
	}
	if sqlstate.In(err, sqlstate.ClassConnectionException, sqlstate.ClassShutdown, sqlstate.TooManyConnections) {
		return fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	}
	return err
}

func isClassified(err error) bool {
	for _, sentinel := range []error{
		context.Canceled, context.DeadlineExceeded, driver.ErrNotAcquired, driver.ErrLost, driver.ErrUnavailable, driver.ErrDenied,
		driver.ErrTooManyLocks, driver.ErrClosed, driver.ErrUnsupported, driver.ErrPooler, driver.ErrStandby,
		driver.ErrSchemaMissing, driver.ErrUntrusted, trust.ErrUnknownRole,
	} {
		if errors.Is(err, sentinel) {
			return true
		}
	}
	return false
}

// Ended returns the error of a session that has ended, and so cannot be used any more.
func Ended(why driver.Reason, err error) error {
	if err == nil {
		return fmt.Errorf("the lock session was ended: %v", why)
	}
	return fmt.Errorf("the lock session ended: %w", err)
}

// LostBecause makes err match [driver.ErrLost].
func LostBecause(err error) error {
	if errors.Is(err, driver.ErrLost) {
		return err
	}
	return fmt.Errorf("%w: %w", driver.ErrLost, err)
}
