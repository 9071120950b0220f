package redisfallback_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
)

// TestProgramWaiterAThousandWaitersCostTheServerLittle counts the commands that the server gets while nothing happens: the waiters'
// polls, and the renewals of the locks that they wait for.
func TestProgramWaiterAThousandWaitersCostTheServerLittle(t *testing.T) {
	t.Parallel()
	const waiters = 1000
	for keys, lockers := range map[int]int{10: 20, waiters: 1} {
		t.Run(fmt.Sprintf("on %d keys", keys), func(t *testing.T) {
			t.Parallel()
			server := testenv.NewRedis(t)
			admin := newClient(t, server.URL())
			ctx, cancel := context.WithCancel(t.Context())
			for i := range keys { // of another library, and not renewed
				must.Succeed(t, admin.Set(ctx, "pglock:"+strconv.Itoa(i), "theirs", 0).Err())
			}
			var waiting sync.WaitGroup
			var all []*pglock.Locker
			for range lockers {
				l := open(t, []redis.UniversalClient{newClient(t, server.URL())}, nil,
					pglock.WithLogger(slog.New(slog.DiscardHandler))) // which asks who holds the locks
				all = append(all, l)
				for i := range waiters / lockers {
					waiting.Go(func() {
						if _, err := l.Lock(ctx, pglock.NewKey(strconv.Itoa(i%keys))); !errors.Is(err, context.Canceled) {
							t.Errorf("a waiter: %v", err)
						}
					})
				}
			}
			held := lock(t, all[0], pglock.NewKey("held by one of our Lockers"))
			for _, l := range all {
				testenv.WaitUntil(t, "they wait", func() bool { return l.Stats().Waiting == waiters/lockers })
			}
			testenv.WaitUntil(t, "all are in line and have subscribed", func() bool {
				channels, err := admin.PubSubChannels(ctx, "pglock:wake:*").Result()
				return err == nil && len(channels) == lockers && inLine(t, admin) == lockers*keys
			})
			const seconds = 6 // three polls
			before, start := commands(t, admin), time.Now()
			time.Sleep(seconds * time.Second) // the commands in this time are counted
			rate := float64(commands(t, admin)-before) / time.Since(start).Seconds()
			t.Logf("%.1f commands/s", rate)
			if rate >= 100 {
				t.Errorf("%d waiters on %d keys cost %.1f commands a second", waiters, keys, rate)
			}
			unlock(t, held)
			cancel()
			waiting.Wait()
		})
	}
}

// inLine counts the waiters, each process once for a key.
func inLine(t *testing.T, admin *redis.Client) (total int) {
	t.Helper()
	lines, err := admin.Keys(t.Context(), "*:pglock:writers:*").Result()
	must.Succeed(t, err)
	for _, line := range lines {
		total += int(admin.ZCard(t.Context(), line).Val())
	}
	return total
}

// commands returns how many commands the server has executed so far, including those of scripts.
func commands(t *testing.T, admin *redis.Client) int64 {
	t.Helper()
	info, err := admin.Info(t.Context(), "stats").Result()
	must.Succeed(t, err)
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, "total_commands_processed:"); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
			must.Succeed(t, err)
			return n
		}
	}
	t.Fatal("INFO has no total_commands_processed")
	return 0
}

func TestWaitersOfSeveralProcessesAreServedInOrder(t *testing.T) {
	s := newPeers(t)
	held := lock(t, s.first, s.key)
	var order []int
	var waiting sync.WaitGroup
	for i := range 8 {
		l := open(t, []redis.UniversalClient{s.admin}, nil)
		waiting.Go(func() {
			mine, err := l.Lock(t.Context(), s.key)
			if err != nil {
				t.Error(err)
				return
			}
			order = append(order, i) // guarded by the lock
			unlock(t, mine)
		})
		testenv.WaitUntil(t, "it is in line", func() bool {
			return inLine(t, s.admin) == i+1
		})
	}
	unlock(t, held)
	waiting.Wait()
	for i, served := range order {
		if i != served {
			t.Fatalf("they were served in the order %v", order)
		}
	}
}

func TestWaiterThatDiesDoesNotKeepTheLock(t *testing.T) {
	t.Parallel()
	s := newPeers(t)
	held := lock(t, s.first, s.key)
	link, address := testenv.NewProxy(t, s.server.Addr())
	dying := open(t, []redis.UniversalClient{newClient(t, "redis://"+address.String())}, nil, pglock.WithLease(short))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		if _, err := dying.Lock(ctx, s.key); err == nil {
			t.Error("the dead waiter got the lock")
		}
	}()
	testenv.WaitUntil(t, "it is in line", func() bool { return inLine(t, s.admin) == 1 })
	link.Cut(true, true)
	unlock(t, held)
	unlock(t, lock(t, s.other, s.key))
	cancel()
	<-gone
}

func TestWaiterNothingIsLeftBehind(t *testing.T) {
	s := newPeers(t)
	var workers sync.WaitGroup
	for i := range 16 {
		l := []*pglock.Locker{s.first, s.other}[i%2]
		workers.Go(func() {
			for round := range 50 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(round%5)*time.Millisecond)
				var opts []pglock.LockOption
				if (i+round)%3 == 0 {
					opts = []pglock.LockOption{pglock.Shared()}
				}
				if held, err := l.Lock(ctx, s.key, opts...); err == nil {
					unlock(t, held)
				}
				cancel()
			}
		})
	}
	workers.Wait()
	keys, err := s.admin.Keys(t.Context(), "*").Result()
	if err != nil || len(keys) > 0 {
		t.Errorf("the server still has the keys %v, %v", keys, err)
	}
}
