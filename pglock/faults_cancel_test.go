package pglock_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/pglock"
)

// Where no second connection to the server can be made, as through some tunnels, there are no cancel requests. A wait that
// ends leaves the server's queue all the same, and its session serves the next one.
func TestFaultsACancelledWaitLeavesTheQueueThoughNoConnectionCanBeMade(t *testing.T) {
	db := testenv.Database(t)
	var refuses atomic.Bool
	config := db.Config(t)
	config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		if refuses.Load() {
			return nil, errors.New("the test refuses connections")
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	l, opened := openConfig(t, config, pglock.WithLease(24*time.Hour))
	key, holder := pglock.NewKey("k"), db.Connect(t)
	plainLock(t, holder, key)
	var before int32
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error)
		go func() {
			_, err := l.Lock(ctx, key)
			failed <- err
		}()
		db.WaitForWaiters(t, 1)
		if before == 0 {
			before = opened.Load()
		}
		refuses.Store(true)
		cancel()
		if err := <-failed; !errors.Is(err, context.Canceled) || !errors.Is(err, pglock.ErrNotAcquired) {
			t.Errorf("a cancelled wait: %v", err)
		}
		for _, lock := range db.AdvisoryLocks(t) {
			if !lock.Granted {
				t.Errorf("after Lock has returned: %v", lock)
			}
		}
	}
	if n := opened.Load(); n != before {
		t.Errorf("%d sessions were opened, %d before the first cancel", n, before)
	}
	refuses.Store(false)
	plainUnlock(t, holder, key)
	wantWorking(t, []pglock.Key{key}, l)
}
