package redisfallback_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/internal/redisserver"
	"github.com/pglock-toolkit/pglock/internal/suites/ratelimittest"
	"github.com/pglock-toolkit/pglock/internal/suites/scheduletest"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/ratelimit"
	"github.com/pglock-toolkit/pglock/pglock/schedule"
)

// newLastingServer starts a server that loses no data when it is killed.
func newLastingServer(t *testing.T) *redisserver.Server {
	t.Helper()
	return testenv.NewRedis(t, "appendonly yes", "appendfsync always")
}

// await waits for d, or the end of ctx.
func await(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// breakServer freezes a server for longer than a lease, and kills it twice.
func breakServer(t *testing.T, node *redisserver.Server) {
	t.Helper()
	time.Sleep(short / 2)
	must.Succeed(t, node.Pause())
	time.Sleep(short + short/2)
	must.Succeed(t, node.Resume())
	for range 2 {
		time.Sleep(short / 2)
		must.Succeed(t, node.Kill())
		must.Succeed(t, node.Up(t.Context()))
	}
	time.Sleep(short / 2)
}

// Three processes run two jobs, and each asks for a tick until it gets an answer. The last one begins after the faults,
// and asks for all ticks again.
func TestLongFaultsScheduleRunsATickAtMostOnceWhileTheServerIsFrozenAndKilled(t *testing.T) {
	t.Parallel()
	const ticks, every = 200, 20 * time.Millisecond
	node := newLastingServer(t)
	first := time.Now()
	var mu sync.Mutex
	ran := map[string]map[time.Time]int{"start": {}, "success": {}}
	var all sync.WaitGroup
	broken := make(chan struct{})
	for i := range 3 {
		jobs := &scheduletest.Jobs{
			Locker: open(t, newClients(t, []*redisserver.Server{node}), nodeTimeout, pglock.WithLease(short)),
		}
		for job, mark := range map[string]schedule.Mark{"start": schedule.MarkStart, "success": schedule.MarkSuccess} {
			all.Go(func() {
				if i == 2 {
					<-broken
				}
				for i := range ticks {
					due := first.Add(time.Duration(i) * every)
					for {
						err := jobs.Run(t.Context(), job, due, func(context.Context, *pglock.Lock) error {
							mu.Lock()
							defer mu.Unlock()
							ran[job][due]++
							return nil
						}, schedule.WithMark(mark))
						if err == nil || errors.Is(err, pglock.ErrDone) {
							break
						}
						if t.Context().Err() != nil {
							return
						}
						await(t.Context(), 10*time.Millisecond)
					}
				}
			})
		}
	}
	breakServer(t, node)
	close(broken)
	all.Wait()
	for due, n := range ran["start"] {
		if n > 1 {
			t.Errorf("MarkOn(Start): the tick of %v ran %d times", due, n)
		}
	}
	if n := len(ran["success"]); n != ticks {
		t.Errorf("MarkOn(Success): %d of %d ticks ran", n, ticks)
	}
	t.Logf("MarkOn(Start): %d of %d ticks ran", len(ran["start"]), ticks)
}

// The bound is by the clock of the server, over every window that begins and ends with an event.
func TestFaultsRatelimitKeepsItsBoundWhileTheServerIsFrozenAndKilled(t *testing.T) {
	t.Parallel()
	node := newLastingServer(t)
	limit := ratelimit.PerSecond(20)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var mu sync.Mutex
	var events []time.Time
	var all sync.WaitGroup
	for range 3 {
		l := newLimiter(t, newClient(t, node.URL()), ratelimit.WithTimeout(short))
		for range 4 {
			all.Go(func() {
				for ctx.Err() == nil {
					d, err := ratelimittest.Allow(ctx, l, "k", limit)
					if err == nil && d.OK {
						mu.Lock()
						events = append(events, d.At)
						mu.Unlock()
					}
					await(ctx, time.Millisecond)
				}
			})
		}
	}
	breakServer(t, node)
	mu.Lock()
	before := len(events)
	mu.Unlock()
	testenv.WaitUntil(t, "it continues", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(events) > before+20
	})
	stop()
	all.Wait()
	checkBound(t, events, limit)
}

func checkBound(t *testing.T, events []time.Time, limit ratelimit.Limit) {
	t.Helper()
	slices.SortFunc(events, time.Time.Compare)
	for i, from := range events {
		for j, to := range events[i:] {
			window := to.Sub(from) + 1
			if bound := float64(limit.Count) + window.Seconds()*float64(limit.Count)/limit.Per.Seconds() + 1; float64(j+1) >= bound {
				t.Fatalf("%d in %v, and it must be less than %.2f", j+1, window, bound)
			}
		}
	}
	t.Logf("%d were let through", len(events))
}
