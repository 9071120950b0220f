package ratelimittest

import (
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/internal/suites/suitetest"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/ratelimit"
)

// ExerciseClock tests a store on a server whose clock is set back by an hour. later does that for a key, by moving all
// times of the key's state an hour later.
func ExerciseClock(t *testing.T, l *ratelimit.Limiter, later func(key string)) {
	s := &suite{Suite: &suitetest.Suite{T: t, Ctx: t.Context()}}
	for name, limit := range map[string]ratelimit.Limit{
		"plain":  {Count: 4, Per: time.Second, Burst: 1},
		"strict": ratelimit.Limit{Count: 4, Per: time.Second}.Strict(),
	} {
		key := s.key(name)
		s.want(s.allow(l, key, limit, 1), true, 0)
		later(key)
		d := s.allow(l, key, limit, 1)
		s.want(d, false, 0) // what was let through still counts
		if d.RetryAfter > limit.Per/4 || d.ResetAfter > limit.Per/4 {
			s.Errorf("%s: the clock was set back: %+v", name, d)
		}
		s.Until(name+": what the key owes becomes less", func() bool { return s.allow(l, key, limit, 1).OK })
		later(key)
		if err := l.Wait(s.Ctx, key, limit, pglock.MaxWait(limit.Per/4)); err != nil {
			s.Errorf("%s: a wait after the clock was set back: %v", name, err)
		}
	}
	key := s.key("waited for")
	s.want(s.allow(l, key, slow, slow.Burst), true, 0)
	for range 2 {
		s.waiter(l, key)
	}
	later(key)
	owed := time.Duration(slow.Burst+2) * time.Hour
	if d := s.allow(l, key, slow, 1); d.OK || d.ResetAfter > owed || d.ResetAfter < owed-patience {
		s.Errorf("%v are owed: %+v", owed, d)
	}
}
