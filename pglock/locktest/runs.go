package locktest

import (
	"context"
	"slices"
	"time"

	"github.com/pglock-toolkit/pglock/internal/runstore"
)

// jobRuns has the runs of a scheduled job that a Server has recorded.
type jobRuns struct {
	done   map[time.Time]bool // by due time
	pruned time.Time
}

// RecordRun implements [runstore.Store].
func (b *backend) RecordRun(ctx context.Context, r runstore.Request) (runstore.State, error) {
	if ctx.Err() != nil {
		return runstore.State{}, context.Cause(ctx)
	}
	s := b.server
	s.mu.Lock()
	defer s.mu.Unlock()
	job := s.jobs[r.Job]
	if job == nil {
		job = &jobRuns{done: map[time.Time]bool{}}
		s.jobs[r.Job] = job
	}
	due := r.Due.UTC()
	state := runstore.State{At: time.Now()}
	state.Done = job.done[due] || !job.pruned.IsZero() && !due.After(job.pruned)
	state.Dues = job.newest(due, r.Newest)
	records := r.Step == runstore.StepStart || r.Step == runstore.StepDone
	if !records || state.Done || due.After(state.At) {
		return state, nil
	}
	job.done[due] = true
	if r.Keep > 0 {
		job.prune(state.At.Add(-r.Keep), due)
	}
	return state, nil
}

// newest returns the n newest due times before due, newest first.
func (j *jobRuns) newest(due time.Time, n int) (dues []time.Time) {
	for d := range j.done {
		if d.Before(due) {
			dues = append(dues, d)
		}
	}
	slices.SortFunc(dues, func(a, b time.Time) int { return b.Compare(a) })
	return dues[:min(n, len(dues))]
}

func (j *jobRuns) prune(before, due time.Time) {
	for d := range j.done {
		if d.Before(before) && d.Before(due) {
			delete(j.done, d)
			if d.After(j.pruned) {
				j.pruned = d
			}
		}
	}
}
