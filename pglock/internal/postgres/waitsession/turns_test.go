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
