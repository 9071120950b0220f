package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// gateway counts the mails, and how many are sent at the same time.
type gateway struct {
	mu       sync.Mutex
	now, max int
	sent     map[int64]int
}

func (g *gateway) send(_ context.Context, order int64) error {
	g.add(1, 0)
	time.Sleep(5 * time.Millisecond)
	g.add(-1, order)
	return nil
}

func (g *gateway) add(n int, order int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now += n
	g.max = max(g.max, g.now)
	if order != 0 {
		g.sent[order]++
	}
}

// process is one worker, with its own Locker.
type process struct {
	*worker
	stop func()
}

func startWorker(t *testing.T, name string, pool *pgxpool.Pool, g *gateway) process {
	t.Helper()
	locker, err := pglock.New(pool, pglock.WithNames())
	must.Succeed(t, err)
	w, err := newWorker(name, pool, locker, 300*time.Millisecond, g.send)
	must.Succeed(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- w.run(ctx) }()
	var stopped atomic.Bool
	stop := func() {
		if stopped.CompareAndSwap(false, true) {
			cancel()
			if err := errors.Join(<-done, locker.Close(context.Background())); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	t.Cleanup(stop)
	return process{w, stop}
}

func count(t *testing.T, pool *pgxpool.Pool, query string) (n int) {
	t.Helper()
	must.Succeed(t, pool.QueryRow(t.Context(), query).Scan(&n))
	return n
}

func eventually(t *testing.T, what string, reached func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !reached(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after a minute: not %s", what)
		}
	}
}

func TestWorkersShareTheWork(t *testing.T) {
	pool := testenv.Database(t).Pool(t)
	var installs sync.WaitGroup
	for range 3 {
		installs.Go(func() {
			if err := install(t.Context(), pool); err != nil {
				t.Error(err)
			}
		})
	}
	installs.Wait()
	g := &gateway{sent: map[int64]int{}}
	fleet := []process{startWorker(t, "a", pool, g), startWorker(t, "b", pool, g), startWorker(t, "c", pool, g)}
	order := func(n int) {
		t.Helper()
		_, err := pool.Exec(t.Context(), "INSERT INTO orders (dispatched) SELECT false FROM generate_series(1, $1)", n)
		must.Succeed(t, err)
	}
	unsent := "SELECT count(*) FROM orders WHERE NOT EXISTS (SELECT FROM mails WHERE order_id = id AND sent_by IS NOT NULL)"

	order(20)
	eventually(t, "all mails sent", func() bool { return count(t, pool, unsent) == 0 })

	// The leader stops. Another one continues.
	var leaders []process
	eventually(t, "led by a process", func() bool {
		leaders = nil
		for _, p := range fleet {
			if p.elector.IsLeader() {
				leaders = append(leaders, p)
			}
		}
		return len(leaders) > 0
	})
	if len(leaders) != 1 {
		t.Fatalf("%d processes lead", len(leaders))
	}
	leaders[0].stop()
	order(10)
	eventually(t, "all mails sent", func() bool { return count(t, pool, unsent) == 0 })
	eventually(t, "three reports", func() bool { return count(t, pool, "SELECT count(*) FROM reports") >= 3 })

	if n := count(t, pool, "SELECT count(*) FROM mails"); n != 30 {
		t.Errorf("there are %d mails of 30 orders", n)
	}
	if n := count(t, pool, "SELECT count(*) - count(DISTINCT due) FROM reports"); n != 0 {
		t.Errorf("%d reports were written again", n)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.max > 2 {
		t.Errorf("%d mails were sent at a time", g.max)
	}
	for order, n := range g.sent {
		if n != 1 {
			t.Errorf("the mail of order %d was sent %d times", order, n)
		}
	}
}
