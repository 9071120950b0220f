package ratelimittest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/internal/suites/suitetest"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/ratelimit"
)

// Exercise tests what package ratelimit promises for every store. Each Limiter that open returns represents a process;
// all must share one server, on which no other program uses keys that begin with the test's name.
func Exercise(t *testing.T, open func(t testing.TB) *ratelimit.Limiter) {
	suitetest.Run(t, patience, func(s *suitetest.Suite) *suite {
		return &suite{s, func() *ratelimit.Limiter { return open(s.T) }}
	}, map[string]func(*suite){
		"ABurstIsLetThroughAndThenNoMore":      (*suite).burst,
		"SeveralAtOnceAreAllOrNone":            (*suite).several,
		"TheBoundHoldsInEveryWindow":           (*suite).bound,
		"WaitsAreSpaced":                       (*suite).wait,
		"AWaitThatIsTooLongCostsNothing":       (*suite).tooLong,
		"AWaitThatIsCancelledLastCostsNothing": (*suite).cancel,
		"KeysOfAllKinds":                       (*suite).keys,
	})
}

// patience is how long the suite waits for something that must happen.
const patience = time.Minute

type suite struct {
	*suitetest.Suite
	open func() *ratelimit.Limiter
}

func (s *suite) key(name string) string { return s.Name() + "/" + name }

func (s *suite) allow(l *ratelimit.Limiter, key string, limit ratelimit.Limit, n int) Answer {
	s.Helper()
	d, err := AllowN(s.Ctx, l, key, limit, n)
	if err != nil {
		s.Fatal(err)
	}
	return d
}

func (s *suite) want(d Answer, ok bool, remaining int) {
	s.Helper()
	if d.OK != ok || d.Remaining != remaining {
		s.Fatalf("OK %v with %d remaining, want %v with %d: %+v", d.OK, d.Remaining, ok, remaining, d)
	}
}

// slow is a limit that lets nothing through during a test after its burst.
var slow = ratelimit.Limit{Count: 24, Per: 24 * time.Hour, Burst: 5}

func (s *suite) burst() {
	l, key := s.open(), s.key("k")
	var last Answer
	for i := range slow.Burst {
		d := s.allow(l, key, slow, 1)
		s.want(d, true, slow.Burst-1-i)
		if i > 0 && d.At.Before(last.At) || d.RetryAfter != 0 || d.Burst != slow.Burst {
			s.Errorf("%+v after %+v", d, last)
		}
		last = d
	}
	d := s.allow(l, key, slow, 1)
	s.want(d, false, 0)
	if d.RetryAfter <= 50*time.Minute || d.RetryAfter > time.Hour || d.ResetAfter <= d.RetryAfter || d.ResetAfter > 5*time.Hour {
		s.Errorf("%+v", d)
	}
	s.want(s.allow(s.open(), key, slow, 1), false, 0) // a restart changes nothing
}

func (s *suite) several() {
	l, key := s.open(), s.key("k")
	s.want(s.allow(l, key, slow, 3), true, 2)
	s.want(s.allow(l, key, slow, 3), false, 2)
	s.want(s.allow(l, key, slow, 2), true, 0)
	if _, err := AllowN(s.Ctx, l, key, slow, slow.Burst+1); err == nil || errors.Is(err, pglock.ErrNotAcquired) {
		s.Errorf("more than the burst: %v", err)
	}
}

// hammer asks from several processes for d, and returns the times of what was let through, by the server's clock.
func (s *suite) hammer(limit ratelimit.Limit, d time.Duration) []time.Time {
	var mu sync.Mutex
	var times []time.Time
	var wg sync.WaitGroup
	end := time.Now().Add(d)
	for range 3 {
		l := s.open()
		for i := range 4 {
			wg.Go(func() {
				for n := 1 + i%2; time.Now().Before(end); {
					time.Sleep(5 * time.Millisecond) // more would only keep the processors busy
					d, err := AllowN(s.Ctx, l, s.key("k"), limit, n)
					if err != nil {
						s.Error(err)
						return
					}
					if d.OK {
						mu.Lock()
						times = append(times, slices.Repeat([]time.Time{d.At}, n)...)
						mu.Unlock()
					}
				}
			})
		}
	}
	wg.Wait()
	slices.SortFunc(times, time.Time.Compare)
	return times
}

// most returns the largest number of times in any half-open window.
func most(times []time.Time, window time.Duration) (n int) {
	first := 0
	for last := range times {
		for times[last].Sub(times[first]) >= window {
			first++
		}
		n = max(n, last-first+1)
	}
	return n
}

func (s *suite) bound() {
	limit := ratelimit.Limit{Count: 40, Per: 400 * time.Millisecond, Burst: 10}
	times := s.hammer(limit, time.Second)
	for _, window := range []time.Duration{time.Millisecond, 100 * time.Millisecond, 400 * time.Millisecond, time.Second} {
		bound := float64(limit.Burst) + float64(window)*float64(limit.Count)/float64(limit.Per) + 1
		if n := most(times, window); float64(n) >= bound {
			s.Errorf("%d in %v, want fewer than %v", n, window, bound)
		}
	}
	if len(times) < 3*limit.Count/2 { // otherwise the test proves nothing; on an idle machine it is five times as many
		s.Errorf("only %d were let through", len(times))
	}
}

func (s *suite) wait() {
	l, key := s.open(), s.key("k")
	limit := ratelimit.Limit{Count: 50, Per: time.Second, Burst: 1}
	start := time.Now()
	const waits = 10
	var wg sync.WaitGroup
	for range waits {
		wg.Go(func() {
			if err := l.Wait(s.Ctx, key, limit); err != nil {
				s.Error(err)
			}
		})
	}
	wg.Wait()
	if took, least := time.Since(start), (waits-1)*20*time.Millisecond; took < least {
		s.Errorf("%d waits took %v, want at least %v", waits, took, least)
	}
}

func (s *suite) tooLong() {
	l, key := s.open(), s.key("k")
	s.want(s.allow(l, key, slow, slow.Burst-1), true, 1)
	ctx, cancel := context.WithTimeout(s.Ctx, 30*time.Second)
	defer cancel()
	if err := l.WaitN(ctx, key, slow, 3); !errors.Is(err, pglock.ErrNotAcquired) {
		s.Errorf("a wait of hours: %v", err)
	}
	if err := l.WaitN(context.WithoutCancel(ctx), key, slow, 3, pglock.MaxWait(time.Hour)); !errors.Is(err, pglock.ErrNotAcquired) {
		s.Errorf("a wait of hours with MaxWait: %v", err)
	}
	s.want(s.allow(l, key, slow, 1), true, 0)
}

// waiter starts a wait of hours, and returns when that has been counted. cancel ends the wait.
func (s *suite) waiter(l *ratelimit.Limiter, key string) (cancel func()) {
	s.Helper()
	owed := s.allow(l, key, slow, 1).ResetAfter
	ctx, end := context.WithCancel(context.WithoutCancel(s.Ctx))
	s.Cleanup(end)
	ended := make(chan error, 1)
	go func() { ended <- l.Wait(ctx, key, slow) }()
	s.Until("the wait is counted", func() bool { return s.allow(l, key, slow, 1).ResetAfter > owed })
	return func() {
		s.Helper()
		end()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			s.Errorf("a wait that was cancelled: %v", err)
		}
	}
}

func (s *suite) cancel() {
	l, key := s.open(), s.key("k")
	s.want(s.allow(l, key, slow, slow.Burst), true, 0)
	owes := func(waits int) {
		s.Helper()
		want := time.Duration(slow.Burst+waits) * time.Hour
		if d := s.allow(l, key, slow, 1); d.OK || d.ResetAfter > want || d.ResetAfter < want-time.Minute {
			s.Errorf("%v are owed, want %v", d.ResetAfter, want)
		}
	}
	first, second := s.waiter(l, key), s.waiter(l, key)
	owes(2)
	first() // it stays counted, since the second already has its time
	owes(2)
	second()
	owes(1)
	third := s.waiter(l, key)
	owes(2)
	third()
	owes(1)
}

func (s *suite) keys() {
	l := s.open()
	for _, name := range []string{"", " ", "a}b", "{a}", "a{b}c{", "日本語", "'\"\\;--", strings.Repeat("x", 900)} {
		s.want(s.allow(l, s.key(name), slow, 1), true, slow.Burst-1)
		s.want(s.allow(l, s.key(name), slow, 1), true, slow.Burst-2)
	}
}
