package histories_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/pglock-toolkit/pglock/internal/integration/histories"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/leader"
	"github.com/pglock-toolkit/pglock/pglock/semaphore"
)

func TestTheModelOfASemaphoreCountsPermits(t *testing.T) {
	for most, want := range map[int]porcupine.CheckResult{1: porcupine.Illegal, 2: porcupine.Ok} {
		h := histories.New()
		for _, e := range []histories.Entry{
			{Holder: 1, Event: histories.Acquired, From: 1, To: 2}, {Holder: 1, Event: histories.Released, From: 5, To: 6},
			{Holder: 2, Event: histories.Acquired, From: 1, To: 4}, {Holder: 2, Event: histories.Released, From: 7, To: 8},
		} {
			h.Add(e)
		}
		if got, _ := h.CheckAgainst(histories.Permits(most), time.Minute); got != want {
			t.Errorf("two holders of %d permits: %s, want %s", most, got, want)
		}
	}
}

const permits = 3

// semaphores makes the workers of r use the permits of one semaphore, with one Semaphore for each Locker.
func (r *run) semaphores() {
	key, all := pglock.NewKey("permits"), map[*pglock.Locker]*semaphore.Semaphore{}
	for _, l := range r.lockers {
		sem, err := semaphore.New(l, key, permits)
		if err != nil {
			r.Fatal(err)
		}
		all[l] = sem
	}
	r.model = histories.Permits(permits)
	r.use = func(ctx context.Context, l *pglock.Locker) { r.usePermit(ctx, all[l]) }
}

// usePermit takes a permit by a method chosen at random, checks it, and releases it.
func (r *run) usePermit(ctx context.Context, sem *semaphore.Semaphore) {
	ctx, cancel := context.WithTimeout(ctx, rand.N(100*time.Millisecond))
	defer cancel()
	asked := r.history.Now()
	acquire := sem.Acquire
	if rand.IntN(5) == 0 {
		acquire = sem.TryAcquire
	}
	p, err := acquire(ctx)
	if err != nil {
		return
	}
	holder := r.history.Holder()
	add := func(event histories.Event, from, to time.Duration) {
		r.history.Add(histories.Entry{Key: "permits", Holder: holder, Event: event, From: from, To: to})
	}
	add(histories.Acquired, asked, r.history.Now())
	for range rand.IntN(3) {
		if from := r.history.Now(); p.Err() == nil && r.looks {
			add(histories.Held, from, r.history.Now())
		}
		time.Sleep(rand.N(time.Millisecond))
	}
	from := r.history.Now()
	switch err := p.Release(context.Background()); {
	case err == nil:
		add(histories.Released, from, r.history.Now())
	case errors.Is(err, pglock.ErrLost):
		add(histories.Lost, asked, r.history.Now())
	case errors.Is(err, pglock.ErrUnavailable):
		add(histories.Lost, asked, histories.Never)
	default:
		r.Errorf("Release: %v", err)
	}
}

func TestSemaphoreIsLinearizable(t *testing.T) {
	db := testenv.Database(t)
	r := &run{T: t, history: histories.New(), looks: true}
	for range 3 {
		r.open(db.Config(t))
	}
	r.semaphores()
	r.work(func(ctx context.Context) { <-ctx.Done() })
}

// A gate that is handed off within the process is not checked on the server, so the handoff limit forbids that here, as
// with locks.
func TestSemaphoreIsLinearizableWhileSessionsAreTerminated(t *testing.T) {
	db := testenv.Database(t)
	r := &run{T: t, history: histories.New()}
	r.open(db.Config(t), pglock.WithHandoffLimit(0, 0))
	r.open(db.Config(t), pglock.WithHandoffLimit(0, 0))
	r.semaphores()
	r.work(r.terminations(db.Connect(t)))
}

// Terms of leaders follow each other while sessions are terminated.
func TestLeaderIsLinearizableWhileSessionsAreTerminated(t *testing.T) {
	db := testenv.Database(t)
	r := &run{T: t, history: histories.New()}
	for range 3 {
		r.open(db.Config(t))
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var campaigns sync.WaitGroup
	for _, l := range r.lockers {
		campaigns.Go(func() { r.campaign(ctx, l) })
	}
	fault := r.terminations(db.Connect(t))
	for r.history.Len() < events/8 && !t.Failed() {
		fault(ctx)
	}
	stop()
	campaigns.Wait()
	r.check()
}

// campaign records the terms of one process.
func (r *run) campaign(ctx context.Context, l *pglock.Locker) {
	holder, asked, over := 0, r.history.Now(), time.Duration(0)
	add := func(event histories.Event, from, to time.Duration) {
		r.history.Add(histories.Entry{Key: "leader", Holder: holder, Event: event, From: from, To: to})
	}
	ended := func(e leader.Event) {
		switch {
		case e.Type != leader.EventEnded:
			return
		case errors.Is(e.Err, pglock.ErrLost):
			add(histories.Lost, asked, r.history.Now())
		case errors.Is(e.Err, pglock.ErrUnavailable):
			add(histories.Lost, asked, histories.Never)
		default:
			add(histories.Released, over, r.history.Now())
		}
		asked = r.history.Now()
	}
	err := leader.Run(ctx, l, pglock.NewKey("election"), func(ctx context.Context, _ *pglock.Lock) error {
		holder = r.history.Holder()
		add(histories.Acquired, asked, r.history.Now())
		time.Sleep(rand.N(2 * time.Millisecond))
		over = r.history.Now()
		return nil
	}, leader.WithBackoff(time.Millisecond, 10*time.Millisecond), leader.WithEvents(ended))
	if !errors.Is(err, context.Canceled) {
		r.Errorf("Run: %v", err)
	}
}
