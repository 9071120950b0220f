package waitsession_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/waitsession"
)

// Callers that have polled for long try at the same moments, so that their tries share statements.
func TestPollersTryTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pollers, afterLong = 500, 2 * time.Second
		ctx, cancel := context.WithTimeout(t.Context(), 2900*time.Millisecond)
		defer cancel()
		began, turns := time.Now(), waitsession.NewTurns(0)
		var mu sync.Mutex
		tries, moments := 0, map[time.Duration]bool{}
		var all sync.WaitGroup
		for range pollers {
			all.Go(func() {
				turn := turns.Join()
				defer turn.Leave()
				for {
					placed, err := turn.Next(ctx)
					if err != nil {
						return
					}
					if placed {
						t.Error("a caller has a place, and there is none")
						return
					}
					if passed := time.Since(began); passed > afterLong {
						mu.Lock()
						tries++
						moments[passed] = true
						mu.Unlock()
					}
				}
			})
		}
		all.Wait()
		if tries < pollers/2 || len(moments) > 20 {
			t.Errorf("%d tries of %d callers were at %d moments of 0.9 s", tries, pollers, len(moments))
		}
	})
}

// waitForLong has callers wait for a time, and returns how many have a place then.
func waitForLong(t *testing.T, turns *waitsession.Turns, callers int, long time.Duration) (placed int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	var mu sync.Mutex
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			turn := turns.Join()
			for has := false; !has; {
				var err error
				if has, err = turn.Next(ctx); err != nil {
					turn.Leave()
					return
				}
			}
			mu.Lock()
			defer mu.Unlock()
			placed++
		})
	}
	all.Wait()
	return placed
}

func TestThoseWhoHavePolledForLongHaveAPlaceOverTheBound(t *testing.T) {
	for long, want := range map[time.Duration]int{2 * time.Second: 16, 2 * time.Minute: 32} {
		synctest.Test(t, func(t *testing.T) {
			if placed := waitForLong(t, waitsession.NewTurns(16), 1000, long); placed != want {
				t.Errorf("%d of 1000 callers have a place after %v, want %d", placed, long, want)
			}
		})
	}
}

func TestAFreePlaceGoesToTheOldestPoller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := waitsession.NewTurns(1)
		first, second, third := turns.Join(), turns.Join(), turns.Join()
		if placed, err := first.Next(t.Context()); !placed || err != nil {
			t.Fatalf("the first has a place: %v, %v", placed, err)
		}
		first.Leave()
		if placed, err := second.Next(t.Context()); !placed || err != nil {
			t.Errorf("the second has a place: %v, %v", placed, err)
		}
		if placed, err := third.Next(t.Context()); placed || err != nil {
			t.Errorf("the third has a place: %v, %v", placed, err)
		}
	})
}
