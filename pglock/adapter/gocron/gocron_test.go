package gocron_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	pglockgocron "github.com/pglock-toolkit/pglock/pglock/adapter/gocron"
	"github.com/pglock-toolkit/pglock/pglock/locktest"
)

// run lets three processes, started at different moments, run a job of one second every minute for ten minutes.
func run(t *testing.T, newLocker func(*pglock.Locker) (gocron.Locker, error)) (runs int64) {
	synctest.Test(t, func(t *testing.T) {
		server := locktest.NewServer()
		var n atomic.Int64
		var schedulers []gocron.Scheduler
		var lockers []*pglock.Locker
		for range 3 {
			l, err := server.Locker()
			must.Succeed(t, err)
			locker, err := newLocker(l)
			must.Succeed(t, err)
			s, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
			must.Succeed(t, err)
			_, err = s.NewJob(gocron.DurationJob(time.Minute), gocron.NewTask(func() {
				n.Add(1)
				time.Sleep(time.Second)
			}), gocron.WithName("job"))
			must.Succeed(t, err)
			s.Start()
			schedulers, lockers = append(schedulers, s), append(lockers, l)
			time.Sleep(3 * time.Second)
		}
		time.Sleep(10*time.Minute + 20*time.Second)
		for i, s := range schedulers {
			must.Succeed(t, s.Shutdown())
			must.Succeed(t, lockers[i].Close(t.Context()))
		}
		runs = n.Load()
	})
	return runs
}

func TestGocronRunsAJobOnceForEachInterval(t *testing.T) {
	runs := run(t, func(l *pglock.Locker) (gocron.Locker, error) { return pglockgocron.New(l, time.Minute) })
	if runs != 10 {
		t.Errorf("it ran %d times in ten minutes, want 10", runs)
	}
}

func TestGocronWithoutAnIntervalOnlyPreventsOverlap(t *testing.T) {
	if runs := run(t, pglockgocron.NewOverlap); runs != 30 {
		t.Errorf("it ran %d times in three processes, want 30", runs)
	}
}

func TestGocronRunsAreTicksToTheObserver(t *testing.T) {
	var kinds []pglock.UseKind
	l, err := locktest.NewMemory(pglock.WithObserver(&pglock.Observer{
		Acquired: func(_ context.Context, i pglock.AcquiredInfo) context.Context {
			kinds = append(kinds, i.Use.Kind)
			return nil
		},
	}))
	must.Succeed(t, err)
	locker, err := pglockgocron.New(l, time.Minute)
	must.Succeed(t, err)
	lock, err := locker.Lock(t.Context(), "job")
	must.Succeed(t, err)
	must.Succeed(t, lock.Unlock(t.Context()))
	if len(kinds) != 1 || kinds[0] != pglock.UseTick {
		t.Errorf("the observer's events are %v", kinds)
	}
	if err := lock.Unlock(t.Context()); !errors.Is(err, pglock.ErrUnlocked) {
		t.Errorf("a second Unlock: %v", err)
	}
	must.Succeed(t, l.Close(t.Context()))
}

func TestGocronElector(t *testing.T) {
	leads := false
	e, err := pglockgocron.NewElector(func() bool { return leads })
	must.Succeed(t, err)
	if err := e.IsLeader(context.Background()); !errors.Is(err, pglockgocron.ErrNotLeader) {
		t.Error(err)
	}
	leads = true
	must.Succeed(t, e.IsLeader(context.Background()))
}

func TestGocronMisuseIsAnError(t *testing.T) {
	l, err := locktest.NewMemory()
	must.Succeed(t, err)
	for _, f := range []func() (any, error){
		func() (any, error) { return pglockgocron.New(nil, time.Minute) },
		func() (any, error) { return pglockgocron.New(l, 0) },
		func() (any, error) { return pglockgocron.NewOverlap(nil) },
		func() (any, error) { return pglockgocron.NewElector(nil) },
	} {
		if _, err := f(); err == nil {
			t.Error("misuse is no error")
		}
	}
	must.Succeed(t, l.Close(t.Context()))
}
