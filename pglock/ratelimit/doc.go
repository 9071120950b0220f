// Package ratelimit limits how often something happens, across all processes that share a PostgreSQL or a Redis:
//
//	limiter, err := ratelimit.New(pool)
//	…
//	d, err := limiter.Allow(ctx, "login:"+ip, ratelimit.PerMinute(10))
//	if err == nil && !d.OK {
//		w.Header().Set("Retry-After", …d.RetryAfter…)
//	}
//
// It is GCRA, a leaky bucket without the leaking: a key is one number, the time until which what it has let through is
// accounted for, on the server's clock. [Limit] says how many it lets through in any window, as a formula, and
// [Limit.Strict] makes that never more than Count.
//
// Callers of one process that ask at the same time share a statement, which is what makes it fast on PostgreSQL: a row
// is written once for all of them. They are let through in the order in which they came. A refusal writes nothing.
//
// On PostgreSQL it needs schema pglock ([pglock.ErrSchemaMissing]); on Redis it needs nothing: there
// redisfallback.NewLimiter makes the Limiter.
package ratelimit
