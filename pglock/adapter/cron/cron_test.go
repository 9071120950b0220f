package cron_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	_ "time/tzdata"

	"github.com/robfig/cron/v3"

	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	pglockcron "github.com/pglock-toolkit/pglock/pglock/adapter/cron"
	"github.com/pglock-toolkit/pglock/pglock/locktest"
	"github.com/pglock-toolkit/pglock/pglock/schedule"
)

// Three processes, which were started at different moments, have the same crontab.
func TestCronRunsAJobOnceForEachDueTime(t *testing.T) {
	for _, spec := range []string{"*/5 * * * *", "@every 5m"} {
		t.Run(spec, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := locktest.NewServer()
				var mu sync.Mutex
				runs := map[time.Time]int{}
				var crons []*cron.Cron
				var lockers []*pglock.Locker
				for range 3 {
					l, err := server.Locker(pglock.WithObserver(&pglock.Observer{Recorded: func(_ context.Context, tick pglock.RecordedInfo) {
						mu.Lock()
						defer mu.Unlock()
						if tick.Ran {
							runs[tick.Due]++
						}
					}}))
					must.Succeed(t, err)
					job, err := schedule.New(l, pglock.NewKey("job"))
					must.Succeed(t, err)
					c := cron.New(cron.WithLocation(time.UTC))
					adapter, err := pglockcron.New(c, pglockcron.OnError(func(_ pglock.Key, _ time.Time, err error) { t.Error(err) }))
					must.Succeed(t, err)
					_, err = adapter.Add(spec, job, func(context.Context, *pglock.Lock) error {
						time.Sleep(time.Second) // shorter than the difference between the processes' clocks
						return nil
					})
					must.Succeed(t, err)
					c.Start()
					crons, lockers = append(crons, c), append(lockers, l)
					time.Sleep(7 * time.Second)
				}
				time.Sleep(time.Hour)
				for i, c := range crons {
					<-c.Stop().Done()
					must.Succeed(t, lockers[i].Close(t.Context()))
				}
				if len(runs) != 12 {
					t.Errorf("it ran for %d due times in an hour, want 12: %v", len(runs), runs)
				}
				for due, n := range runs {
					if n != 1 || due.Minute()%5 != 0 || due.Second() != 0 {
						t.Errorf("it ran %d times for %v", n, due)
					}
				}
			})
		})
	}
}

// The documentation says why cron expressions should be in UTC. A bubble begins in the year 2000, when clocks in New York
// went forward on 2 April and back on 29 October. Those of Phoenix never do.
func TestCronDueTimesDependOnTheTimeZoneUnlessItIsUTC(t *testing.T) {
	for _, test := range []struct {
		spec  string
		zones []string // of the processes
		day   time.Time
		want  []string // when it runs, on the day that begins at noon before
	}{
		{"30 1 * * *", []string{"America/New_York"}, time.Date(2000, 10, 29, 0, 0, 0, 0, time.UTC), []string{"05:30", "06:30"}},
		{"30 2 * * *", []string{"America/New_York"}, time.Date(2000, 4, 2, 0, 0, 0, 0, time.UTC), nil},
		{"30 1 * * *", []string{"America/New_York", "America/Phoenix"}, time.Date(2000, 4, 1, 0, 0, 0, 0, time.UTC), []string{"06:30", "08:30"}},
		{"30 1 * * *", []string{"UTC", "UTC"}, time.Date(2000, 10, 29, 0, 0, 0, 0, time.UTC), []string{"01:30"}},
		{"30 2 * * *", []string{"UTC", "UTC"}, time.Date(2000, 4, 2, 0, 0, 0, 0, time.UTC), []string{"02:30"}},
		{"CRON_TZ=UTC 30 2 * * *", []string{"America/New_York", "America/Phoenix"}, time.Date(2000, 4, 2, 0, 0, 0, 0, time.UTC), []string{"02:30"}},
	} {
		t.Run(fmt.Sprint(test.spec, " in ", test.zones), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(test.day.Add(-12 * time.Hour)))
				server := locktest.NewServer()
				var mu sync.Mutex
				var ran []string
				for _, zone := range test.zones {
					in, err := time.LoadLocation(zone)
					must.Succeed(t, err)
					l, err := server.Locker()
					must.Succeed(t, err)
					defer func() { must.Succeed(t, l.Close(context.Background())) }()
					job, err := schedule.New(l, pglock.NewKey("job"))
					must.Succeed(t, err)
					c := cron.New(cron.WithLocation(in))
					adapter, err := pglockcron.New(c)
					must.Succeed(t, err)
					_, err = adapter.Add(test.spec, job, func(ctx context.Context, _ *pglock.Lock) error {
						due, _ := schedule.Due(ctx)
						mu.Lock()
						defer mu.Unlock()
						ran = append(ran, due.Format("15:04"))
						return nil
					})
					must.Succeed(t, err)
					c.Start()
					defer func() { <-c.Stop().Done() }()
				}
				time.Sleep(24 * time.Hour)
				synctest.Wait()
				mu.Lock()
				defer mu.Unlock()
				if !slices.Equal(ran, test.want) {
					t.Errorf("it ran at %v UTC, want %v", ran, test.want)
				}
			})
		})
	}
}

func TestCronMisuseIsAnError(t *testing.T) {
	l, err := locktest.NewMemory()
	must.Succeed(t, err)
	job, err := schedule.New(l, pglock.NewKey("job"))
	must.Succeed(t, err)
	if _, err := pglockcron.New(nil); err == nil {
		t.Error("a nil Cron is no error")
	}
	if _, err := pglockcron.New(cron.New(), nil); err == nil {
		t.Error("a nil option is no error")
	}
	c, err := pglockcron.New(cron.New())
	must.Succeed(t, err)
	if _, err := c.Add("* *", job, func(context.Context, *pglock.Lock) error { return nil }); err == nil ||
		!strings.Contains(err.Error(), `"job"`) {
		t.Error(err)
	}
	if _, err := c.Add("@hourly", job, nil); err == nil {
		t.Error("a nil function is no error")
	}
	if _, err := c.Add("@hourly", nil, func(context.Context, *pglock.Lock) error { return nil }); err == nil {
		t.Error("a nil Job is no error")
	}
	must.Succeed(t, l.Close(t.Context()))
}
