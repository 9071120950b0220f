package keylabel

import "github.com/pglock-toolkit/pglock/pglock"

// Reasons and Failures are the values with which the counters of lost locks and of failed calls begin at zero.
var (
	Reasons = []pglock.LostReason{
		pglock.LostSession, pglock.LostLease, pglock.LostGone, pglock.LostMaxHold, pglock.LostClosed,
	}
	Failures = []pglock.Outcome{
		pglock.OutcomeNotAcquired, pglock.OutcomeCanceled, pglock.OutcomeUnavailable, pglock.OutcomeTooManyLocks,
		pglock.OutcomeSelfDeadlock, pglock.OutcomeClosed, pglock.OutcomeError,
	}
)
