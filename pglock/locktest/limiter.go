package locktest

import (
	"github.com/pglock-toolkit/pglock/internal/suites/ratelimittest"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/ratelimit"
)

// NewLimiter returns a rate limiter in memory, for unit tests. It works in a bubble of testing/synctest.
func NewLimiter(key pglock.Key, opts ...ratelimit.Option) (*ratelimit.Limiter, error) {
	return ratelimittest.New(&ratelimittest.Memory{}, key, opts...)
}
