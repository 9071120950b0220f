// Package ratelimit limits how often something happens, across all processes that share a PostgreSQL or a Redis:
//
//	logins, err := ratelimit.New(pool, pglock.NewKey("login"))
//	…
//	d, err := logins.Allow(ctx, ip, ratelimit.PerMinute(10))
//	if errors.Is(err, pglock.ErrNotAcquired) {
//		w.Header().Set("Retry-After", …d.RetryAfter…)
//	}
//
// The algorithm is GCRA, a leaky bucket that needs no process to leak. The state of a key is two times of the server's
// clock: when past requests are paid off at the limit's rate, and when the last one came. [Limit] bounds how many
// requests pass in any window; with [Limit.Strict] that is never more than Count.
//
// Callers of one process that ask at the same time share a statement, which makes it fast on PostgreSQL: a row is
// written once for all of them. They are served in the order of their calls. A refusal writes nothing.
//
// On PostgreSQL it needs schema pglock ([pglock.ErrSchemaMissing]); on Redis it needs nothing, and
// redisfallback.NewLimiter makes the Limiter.
package ratelimit
