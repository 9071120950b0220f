package pglock

import (
	"context"
	"errors"
)

// Outcome says in one word how a call for a lock has ended, for labels of metrics.
type Outcome string

// The outcomes of calls for locks.
const (
	OutcomeAcquired     Outcome = "acquired"
	OutcomeNotAcquired  Outcome = "not_acquired"  // held by another: a try that was refused, or a wait that was too long
	OutcomeCanceled     Outcome = "canceled"      // the caller's context was cancelled
	OutcomeUnavailable  Outcome = "unavailable"   // the server could not be reached, or denied access
	OutcomeTooManyLocks Outcome = "too_many"      // a bound on the number of locks
	OutcomeSelfDeadlock Outcome = "self_deadlock" // the call would have waited for itself
	OutcomeClosed       Outcome = "closed"        // the Locker was closed
	OutcomeError        Outcome = "error"         // anything else
)

// OutcomeOf returns the outcome of a call that has returned err.
func OutcomeOf(err error) Outcome {
	if err == nil {
		return OutcomeAcquired
	}
	for _, known := range []struct {
		err     error
		outcome Outcome
	}{
		{ErrUnavailable, OutcomeUnavailable}, {ErrDenied, OutcomeUnavailable}, {context.Canceled, OutcomeCanceled}, {ErrNotAcquired, OutcomeNotAcquired},
		{ErrTooManyLocks, OutcomeTooManyLocks}, {ErrSelfDeadlock, OutcomeSelfDeadlock}, {ErrClosed, OutcomeClosed},
	} {
		if errors.Is(err, known.err) {
			return known.outcome
		}
	}
	return OutcomeError
}
