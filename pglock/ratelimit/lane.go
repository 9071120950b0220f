package ratelimit

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"runtime"
	"slices"
	"sync"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

const (
	// lanes is how many statements can be in flight at once. A key is always in the same lane, so concurrent requests
	// for it share a statement, and no statement of this process waits on the server for another one.
	lanes = 2
	// maxFlight is the largest number of requests in a statement.
	maxFlight = 4096
)

// lane is a queue of requests. One statement at a time carries the first of them.
type lane struct {
	limiter *Limiter

	mu     sync.Mutex
	line   []*request
	flying bool
}

// decide waits for the answer to r, or withdraws r if ctx ends before it is sent.
//
// If ctx ends just as r is about to be sent, mu decides: a request that has left the queue is sent.
func (l *Limiter) decide(ctx context.Context, r *request) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	lane := &l.lanes[maphash.String(l.seed, r.key)%lanes]
	lane.add(r)
	select {
	case <-r.answered:
		return r.err
	case <-ctx.Done():
	}
	if lane.withdraw(r) {
		return context.Cause(ctx)
	}
	select {
	case <-r.answered: // just then
		return r.err
	default:
		return fmt.Errorf("%w (it was on its way, and may have been counted)", context.Cause(ctx))
	}
}

func (l *lane) add(r *request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.line = append(l.line, r)
	if !l.flying {
		l.flying = true
		go l.fly()
	}
}

// withdraw removes r from the queue, and reports false if r has already left it.
func (l *lane) withdraw(r *request) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.line, r)
	if i < 0 {
		return false
	}
	l.line = slices.Delete(l.line, i, i+1)
	return true
}

// next removes the first requests from the queue. If there are none, the lane stops flying, and the next request starts
// it again: both happen under mu, so no caller is left behind.
func (l *lane) next() []*request {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := min(len(l.line), maxFlight)
	batch := l.line[:n:n]
	l.line = l.line[n:]
	if n == 0 {
		l.line, l.flying = nil, false
	}
	return batch
}

// fly sends the queued requests until none is left.
func (l *lane) fly() {
	for {
		runtime.Gosched() // so that callers that are about to ask can join
		batch := l.next()
		if len(batch) == 0 {
			return
		}
		l.limiter.send(batch)
	}
}

// send sends a batch and distributes the answers. It does not depend on the context of any caller.
func (l *Limiter) send(batch []*request) {
	slices.SortStableFunc(batch, func(a, b *request) int { return cmp.Compare(a.key, b.key) })
	runs := gather(batch)
	ctx, cancel := context.WithTimeout(context.Background(), l.config.timeout)
	defer cancel()
	grants, err := l.store.TakeRates(ctx, runs)
	if err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("%w: no answer within %v: %w", driver.ErrUnavailable, l.config.timeout, err)
		}
		for _, r := range batch {
			r.err = err
			close(r.answered)
		}
		return
	}
	for i, run := range runs {
		share(batch[:run.Count], grants[i])
		batch = batch[run.Count:]
	}
}

// gather groups equal requests that follow each other into runs.
func gather(batch []*request) []driver.RateRun {
	var runs []driver.RateRun
	for _, r := range batch {
		run := driver.RateRun{
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
func share(run []*request, g driver.RateGrant) {
	end := g.Start + g.Granted*run[0].price()
	for i, r := range run {
		r.at, r.err = g.At, g.Err
		r.ok = int64(i) < g.Granted
		r.before = end
		r.until = g.Start + int64(i+1)*r.price()
		close(r.answered)
	}
}
