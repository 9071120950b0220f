package schedule

import (
	"fmt"
	"time"
)

// Schedule says when a job is due: Next returns the first time after t. The schedules of robfig/cron and of river
// implement it. It must give every process the same times, so let it be in UTC.
type Schedule interface{ Next(t time.Time) time.Time }

// Every returns the schedule of all multiples of d since the beginning of 1970 in UTC. It is the same in every
// process, whenever that started. A d below a millisecond is an error.
func Every(d time.Duration) (Schedule, error) {
	if d < time.Millisecond {
		return nil, fmt.Errorf("pglock/schedule: Every(%v): it must be at least a millisecond", d)
	}
	return every(d.Truncate(time.Microsecond)), nil
}

type every time.Duration

// Next implements [Schedule].
func (e every) Next(t time.Time) time.Time { return e.Last(t).Add(time.Duration(e)) }

// Last returns the last time that is not after t.
func (e every) Last(t time.Time) time.Time {
	since, step := t.UnixMicro(), time.Duration(e).Microseconds()
	n := since / step
	if since%step < 0 { // before 1970
		n--
	}
	return time.UnixMicro(n * step).UTC()
}
