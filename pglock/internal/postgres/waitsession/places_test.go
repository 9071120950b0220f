package waitsession

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/mux"
)

func full(context.Context, func(*mux.Session)) (*mux.Session, error) {
	return nil, driver.ErrUnavailable
}

// Callers that have polled for long try at the same moments, so that their tries share statements.
func TestPollersTryTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pollers, afterLong = 500, 2 * time.Second
		ctx, cancel := context.WithTimeout(t.Context(), 2900*time.Millisecond)
		defer cancel()
		began, p := time.Now(), New(Config{Open: full})
		defer p.Close()
		tries, moments := 0, map[time.Duration]bool{}
		var mu sync.Mutex
		var all sync.WaitGroup
		for range pollers {
			all.Go(func() {
				if placed, err := p.enter(ctx, func() bool {
					mu.Lock()
					defer mu.Unlock()
					if passed := time.Since(began); passed > afterLong {
						tries++
						moments[passed] = true
					}
					return false
				}); placed || err == nil {
					t.Error("a caller has a place, and there is none")
				}
			})
		}
		all.Wait()
		if tries < pollers/2 || len(moments) > 20 {
			t.Errorf("%d tries of %d callers were at %d moments of 0.9 s", tries, pollers, len(moments))
		}
	})
}

func TestAFreePlaceGoesToTheOldestPoller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Config{Open: full, Most: 1})
		defer p.Close()
		ctx, cancel := context.WithCancel(t.Context())
		var entered []int
		for i := range 3 {
			go func() {
				if _, err := p.enter(ctx, func() bool { return false }); err == nil {
					entered = append(entered, i)
				}
			}()
			synctest.Wait()
		}
		time.Sleep(time.Minute)
		p.places.Release(1)
		synctest.Wait()
		if len(entered) != 2 || entered[0] != 0 || entered[1] != 1 {
			t.Errorf("these have got a place: %v", entered)
		}
		cancel()
	})
}

// A caller for whom no session can be opened tries all the same. Its place is free when a try has ended its wait.
func TestACallerWithoutASessionTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opened, tries := 0, 0
		p := New(Config{Most: 1, Open: func(context.Context, func(*mux.Session)) (*mux.Session, error) {
			opened++
			return nil, driver.ErrUnavailable
		}})
		defer p.Close()
		_, tried, err := p.Wait(t.Context(), driver.Request{}, func() bool { tries++; return tries == 100 })
		if !tried || err != nil || opened > 15 || opened < 5 {
			t.Errorf("tried: %v, %v; %d tries, and %d sessions asked for", tried, err, tries, opened)
		}
		if !p.places.TryAcquire(1) {
			t.Error("the place is not free")
		}
	})
}
