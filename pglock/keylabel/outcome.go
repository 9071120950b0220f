package keylabel

import (
	"context"
	"errors"

	"github.com/pglock-toolkit/pglock/pglock"
)

// outcomes are what errors of calls for locks mean; the first that an error matches counts.
var outcomes = []struct {
	err  error
	word string
}{
	{pglock.ErrUnavailable, "unavailable"}, // the server could not be reached, or
	{pglock.ErrDenied, "unavailable"},      // denied access
	{context.Canceled, "canceled"},
	{pglock.ErrNotAcquired, "not_acquired"}, // held by another: a try that was refused, or a wait that was too long
	{pglock.ErrTooManyLocks, "too_many"},
	{pglock.ErrDeadlock, "deadlock"},
	{pglock.ErrClosed, "closed"},
}

// Outcome returns in one word how a call for a lock that has returned err has ended.
func Outcome(err error) string {
	if err == nil {
		return "acquired"
	}
	for _, known := range outcomes {
		if errors.Is(err, known.err) {
			return known.word
		}
	}
	return "error"
}

// Reasons and Failures are the values with which the counters of lost locks and of failed calls begin at zero.
var (
	Reasons = []pglock.LostReason{
		pglock.LostSession, pglock.LostLease, pglock.LostGone, pglock.LostMaxHold, pglock.LostClosed,
	}
	Failures = []string{"not_acquired", "canceled", "unavailable", "too_many", "deadlock", "closed", "error"}
)
