package schedule_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/locktest"
	"github.com/pglock-toolkit/pglock/pglock/schedule"
)

func TestScheduleBeginCountsOneRunForEachInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, server := t.Context(), locktest.NewServer()
		var jobs []*schedule.Job
		for range 2 {
			l, err := server.Locker()
			must.Succeed(t, err)
			defer func() { must.Succeed(t, l.Close(ctx)) }()
			j, err := schedule.New(l, pglock.NewKey("report"))
			must.Succeed(t, err)
			jobs = append(jobs, j)
		}
		begin := func(j *schedule.Job, interval time.Duration) (*schedule.Begun, error) {
			return j.Begin(ctx, interval)
		}

		first, err := begin(jobs[0], time.Hour)
		must.Succeed(t, err)
		if _, err := begin(jobs[1], time.Hour); !errors.Is(err, pglock.ErrNotAcquired) {
			t.Errorf("while it runs: %v", err)
		}
		must.Succeed(t, first.End(ctx))
		if _, err := begin(jobs[1], time.Hour); !errors.Is(err, pglock.ErrDone) {
			t.Errorf("after it ran: %v", err)
		}
		if overlap, err := begin(jobs[1], 0); err != nil {
			t.Errorf("without an interval: %v", err)
		} else {
			must.Succeed(t, overlap.End(ctx))
		}
		time.Sleep(time.Hour)
		next, err := begin(jobs[1], time.Hour)
		must.Succeed(t, err)
		must.Succeed(t, next.End(ctx))
		for _, interval := range []time.Duration{-time.Hour, time.Nanosecond, time.Second - 1} {
			if _, err := begin(jobs[0], interval); err == nil {
				t.Errorf("an interval of %v is no error", interval)
			}
		}
	})
}
