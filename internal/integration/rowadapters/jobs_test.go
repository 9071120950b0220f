package rowadapters

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/robfig/cron/v3"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	pglockcron "github.com/pglock-toolkit/pglock/pglock/adapter/cron"
	pglockgocron "github.com/pglock-toolkit/pglock/pglock/adapter/gocron"
	"github.com/pglock-toolkit/pglock/pglock/schedule"
)

// runs counts runs of a job by their due times.
type runs struct {
	mu  sync.Mutex
	due map[time.Time]int
}

// observe returns an option for the Lockers of the processes.
func (r *runs) observe() pglock.Option {
	return pglock.WithObserver(&pglock.Observer{Recorded: func(_ context.Context, tick pglock.RecordedInfo) {
		if tick.Ran {
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.due == nil {
				r.due = map[time.Time]int{}
			}
			r.due[tick.Due]++
		}
	}})
}

// await waits for some runs, and checks that no due time had two.
func (r *runs) await(t *testing.T) {
	t.Helper()
	testenv.WaitUntil(t, "the job ran for three due times", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.due) >= 3
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	for due, n := range r.due {
		if n != 1 {
			t.Errorf("it ran %d times for %v", n, due)
		}
	}
}

// Three processes have the same crontab.
func TestRowsCron(t *testing.T) {
	p := newPlace(t)
	ran := &runs{}
	for range 3 {
		job, err := schedule.New(p.locker(t, ran.observe()), pglock.NewKey("job"))
		must.Succeed(t, err)
		c := cron.New(cron.WithLocation(time.UTC))
		adapter, err := pglockcron.New(c)
		must.Succeed(t, err)
		_, err = adapter.Add("@every 1s", job, func(context.Context, *pglock.Lock) error { return nil })
		must.Succeed(t, err)
		c.Start()
		defer func() { <-c.Stop().Done() }()
	}
	ran.await(t)
}

// schedulers starts three processes whose job is task.
func (p *place) schedulers(t *testing.T, newLocker func() (gocron.Locker, error), task func()) {
	t.Helper()
	for range 3 {
		locker, err := newLocker()
		must.Succeed(t, err)
		s, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker), gocron.WithLocation(time.UTC))
		must.Succeed(t, err)
		_, err = s.NewJob(gocron.DurationJob(time.Second), gocron.NewTask(task), gocron.WithName("job"))
		must.Succeed(t, err)
		s.Start()
		t.Cleanup(func() { must.Succeed(t, s.Shutdown()) })
	}
}

func TestRowsGocron(t *testing.T) {
	p := newPlace(t)
	var ran atomic.Int32
	p.schedulers(t, func() (gocron.Locker, error) { return pglockgocron.New(p.locker(t), time.Hour) }, func() { ran.Add(1) })
	var locks int64
	testenv.WaitUntil(t, "the job was tried several times", func() bool {
		err := p.owner.QueryRow(t.Context(), "SELECT last_value FROM pglock.fence").Scan(&locks)
		return err == nil && locks >= 6
	})
	if n := ran.Load(); n < 1 || n > 2 { // a second interval may have begun meanwhile
		t.Errorf("it ran %d times in an hour", n)
	}
}

func TestRowsGocronWithoutAnIntervalPreventsOverlap(t *testing.T) {
	p := newPlace(t)
	var running, overlaps, ran atomic.Int32
	p.schedulers(t, func() (gocron.Locker, error) { return pglockgocron.NewOverlap(p.locker(t)) }, func() {
		if running.Add(1) > 1 {
			overlaps.Add(1)
		}
		time.Sleep(100 * time.Millisecond)
		running.Add(-1)
		ran.Add(1)
	})
	testenv.WaitUntil(t, "the job ran three times", func() bool { return ran.Load() >= 3 })
	if n := overlaps.Load(); n > 0 {
		t.Errorf("%d runs overlapped with another", n)
	}
}
