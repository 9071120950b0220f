package ratelimit

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"slices"

	"github.com/pglock-toolkit/pglock/internal/ratestore"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

const (
	// queues is how many statements can be in flight at once. A key is always in the same queue, so concurrent requests
	// for it share a statement, and no statement of this process waits on the server for another one.
	queues = 2
	// maxBatch is the largest number of requests in a statement.
	maxBatch = 4096
)

// decide waits for the answer to r, or withdraws r if ctx ends before it is sent. After an error r may still be on its
// way to the server.
func (l *Limiter) decide(ctx context.Context, r *request) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	r.answered = make(chan struct{})
	q := &l.queues[maphash.String(l.seed, r.key)%queues]
	q.Add(r)
	select {
	case <-r.answered:
		return r.err
	case <-ctx.Done():
	}
	if q.Withdraw(r) {
		return context.Cause(ctx)
	}
	select {
	case <-r.answered: // just then
		return r.err
	default:
		return fmt.Errorf("%w (it was on its way, and may have been counted)", context.Cause(ctx))
	}
}

// send asks the store, and tells the requests their answers. It does not depend on the context of any caller.
func (l *Limiter) send(requests []*request) {
	l.ask(requests)
	for _, r := range requests {
		close(r.answered)
	}
}

// ask sends requests in one statement and records the answers.
func (l *Limiter) ask(requests []*request) {
	slices.SortStableFunc(requests, func(a, b *request) int { return cmp.Compare(a.key, b.key) })
	runs := gather(requests)
	ctx, cancel := context.WithTimeout(context.Background(), l.config.timeout)
	defer cancel()
	grants, err := l.store.Take(ctx, runs)
	if err != nil {
		if ctx.Err() != nil {
			err = l.noAnswer(err)
		}
		for _, r := range requests {
			r.err = err
		}
		return
	}
	for i, run := range runs {
		share(requests[:run.Count], grants[i])
		requests = requests[run.Count:]
	}
}

// noAnswer returns the error for a server that did not answer in time.
func (l *Limiter) noAnswer(err error) error {
	return fmt.Errorf("%w: no answer within %v: %w", driver.ErrUnavailable, l.config.timeout, err)
}

// gather groups consecutive equal requests into runs.
func gather(requests []*request) []ratestore.Run {
	var runs []ratestore.Run
	for _, r := range requests {
		run := ratestore.Run{
			Key: r.key, Interval: r.shape.interval, Tolerance: r.shape.tolerance,
			Amount: r.amount, Count: 1, Patience: r.patience,
		}
		if last := len(runs) - 1; last >= 0 {
			run.Count = runs[last].Count
			if runs[last] == run {
				runs[last].Count++
				continue
			}
			run.Count = 1
		}
		runs = append(runs, run)
	}
	return runs
}

// share answers the requests of a run.
func share(run []*request, g ratestore.Grant) {
	end := g.Start + g.Granted*run[0].price()
	for i, r := range run {
		r.at, r.err = g.At, g.Err
		r.ok = int64(i) < g.Granted
		r.before = end
		r.until = g.Start + int64(i+1)*r.price()
	}
}
