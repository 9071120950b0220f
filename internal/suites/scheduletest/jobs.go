package scheduletest

import (
	"context"
	"slices"
	"time"

	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/schedule"
)

// Jobs makes jobs by name, on one Locker and with the same options.
type Jobs struct {
	Locker  *pglock.Locker
	Options []schedule.Option
}

// Job returns a job.
func (j *Jobs) Job(name string, opts ...schedule.Option) (*schedule.Job, error) {
	return schedule.New(j.Locker, pglock.NewKey(name), append(slices.Clone(j.Options), opts...)...)
}

// Run runs a job.
func (j *Jobs) Run(
	ctx context.Context, name string, due time.Time, fn func(context.Context, *pglock.Lock) error, opts ...schedule.Option,
) error {
	job, err := j.Job(name, opts...)
	if err != nil {
		return err
	}
	return job.Run(ctx, due, fn)
}
