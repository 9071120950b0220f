package redisfallback_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/leader"
	"github.com/pglock-toolkit/pglock/pglock/semaphore"
)

// alive counts the workers whose contexts have not ended.
type alive struct {
	*testing.T
	what string
	most int

	mu    sync.Mutex
	now   []context.Context
	total int
}

// enter records that another worker works. Contexts that have ended do not count, whether or not their holders have
// noticed.
func (a *alive) enter(ctx context.Context) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now = slices.DeleteFunc(a.now, func(ctx context.Context) bool { return ctx.Err() != nil })
	if ctx.Err() != nil {
		return
	}
	if a.now = append(a.now, ctx); len(a.now) > a.most {
		a.Errorf("%s: %d contexts are alive at the same time, and at most %d may be", a.what, len(a.now), a.most)
	}
	a.total++
}

func (a *alive) leave(ctx context.Context) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now = slices.DeleteFunc(a.now, func(other context.Context) bool { return other == ctx })
}

func (a *alive) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.total
}

// primitivesDuring has three Lockers campaign in one election and use the permits of one semaphore while fault runs.
// Afterwards both must still work.
func primitivesDuring(t *testing.T, clients []redis.UniversalClient, fault func()) {
	const permits = 2
	leaders, holders := &alive{T: t, what: "leaders", most: 1}, &alive{T: t, what: "permits", most: permits}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var all sync.WaitGroup
	for range 3 {
		l := open(t, clients, nodeTimeout, pglock.WithLease(short))
		all.Go(func() {
			_ = leader.Run(ctx, l, pglock.NewKey("election"), func(ctx context.Context, _ *pglock.Lock) error {
				leaders.enter(ctx)
				defer leaders.leave(ctx)
				await(ctx, workTime())
				return nil
			}, leader.WithBackoff(time.Millisecond, 50*time.Millisecond)) // the end of ctx
		})
		sem, err := semaphore.New(l, pglock.NewKey("permits"), permits)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			all.Go(func() {
				for ctx.Err() == nil {
					err := sem.Do(ctx, func(ctx context.Context, _ *semaphore.Permit) error {
						holders.enter(ctx)
						defer holders.leave(ctx)
						await(ctx, workTime())
						return nil
					})
					if errors.Is(err, pglock.ErrUnavailable) {
						await(ctx, 50*time.Millisecond)
					}
				}
			})
		}
	}
	working := func(when string) {
		t.Helper()
		terms, grants := leaders.count(), holders.count()
		testenv.WaitUntil(t, "there are terms and permits "+when, func() bool {
			return leaders.count() > terms+3 && holders.count() > grants+10
		})
	}
	working("before the fault")
	fault()
	working("after the fault")
	stop()
	all.Wait()
	t.Logf("%d terms, %d permits", leaders.count(), holders.count())
}

// workTime returns how long a worker works: sometimes longer than a restart of a server takes.
func workTime() time.Duration {
	if rand.N(4) == 0 {
		return short / 2
	}
	return 10 * time.Millisecond
}

// await waits for d, or the end of ctx.
func await(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

func TestLongFaultsPrimitivesExcludeWhileTheServerIsFrozen(t *testing.T) {
	t.Parallel()
	nodes := servers(t, 1)
	primitivesDuring(t, newClients(t, nodes), func() {
		for range 2 {
			nodes[0].Pause(t)
			time.Sleep(short + short/2) // longer than a lease
			nodes[0].Resume(t)
			time.Sleep(short / 2)
		}
	})
}

func TestLongFaultsPrimitivesExcludeWhileNodesOfARedlockAreFrozenAndKilled(t *testing.T) {
	t.Parallel()
	nodes := servers(t, 3)
	t.Cleanup(func() { awaitNoDialling(t) }) // when the clients are closed
	primitivesDuring(t, newClients(t, nodes), func() {
		for _, node := range nodes {
			node.Pause(t)
			time.Sleep(short / 2)
			node.Resume(t)
			time.Sleep(short / 2)
		}
		nodes[0].Kill(t) // for good
	})
}

// awaitNoDialling waits until go-redis has noticed that its clients are closed: it looks after each second in which it
// tries to reach a server that is gone.
func awaitNoDialling(t *testing.T) {
	stacks := make([]byte, 1<<22)
	testenv.WaitUntil(t, "go-redis has stopped dialling", func() bool {
		return !strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), ").tryDial(")
	})
}
