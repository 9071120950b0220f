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
	// maxBatch is the largest number of requests in a statement.
	maxBatch = 4096
)

// lane is a queue of batches. One statement at a time carries the first of them.
type lane struct {
	limiter *Limiter

	mu      sync.Mutex
	queue   []*batch
	sending bool
}

// batch is the requests that a statement carries, in the order in which they came.
type batch struct {
	requests []*request
	answered chan struct{} // closed when all of them have their answers
}

// decide waits for the answer to r, or withdraws r if ctx ends before it is sent. After an error r may still be on its way.
//
// If ctx ends just as r is about to be sent, mu decides: a request that has left the queue is sent.
func (l *Limiter) decide(ctx context.Context, r *request) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	lane := &l.lanes[maphash.String(l.seed, r.key)%lanes]
	b := lane.add(r)
	select {
	case <-b.answered:
		return r.err
	case <-ctx.Done():
	}
	if lane.withdraw(b, r) {
		return context.Cause(ctx)
	}
	select {
	case <-b.answered: // just then
		return r.err
	default:
		return fmt.Errorf("%w (it was on its way, and may have been counted)", context.Cause(ctx))
	}
}

func (l *lane) add(r *request) *batch {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := len(l.queue) - 1
	if last < 0 || len(l.queue[last].requests) >= maxBatch {
		l.queue = append(l.queue, &batch{answered: make(chan struct{})})
		last++
	}
	b := l.queue[last]
	b.requests = append(b.requests, r)
	if !l.sending {
		l.sending = true
		go l.sendAll()
	}
	return b
}

// withdraw removes r from b, and reports false if b has already left the queue.
func (l *lane) withdraw(b *batch, r *request) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Contains(l.queue, b) {
		return false
	}
	i := slices.Index(b.requests, r)
	b.requests = slices.Delete(b.requests, i, i+1)
	return true
}

// next removes the first batch from the queue; all its requests may have been withdrawn. If there is none, the lane
// stops sending, and the next request starts it again: both happen under mu, so no request stays unsent.
func (l *lane) next() (b *batch, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) == 0 {
		l.queue, l.sending = nil, false
		return nil, false
	}
	b, l.queue = l.queue[0], l.queue[1:]
	return b, true
}

// sendAll sends the queued requests until none is left.
func (l *lane) sendAll() {
	for {
		runtime.Gosched() // lets callers that are about to ask join
		b, ok := l.next()
		if !ok {
			return
		}
		if len(b.requests) > 0 {
			l.limiter.send(b.requests)
		}
		close(b.answered)
	}
}

// send sends requests in one statement and records the answers. It does not depend on the context of any caller.
func (l *Limiter) send(requests []*request) {
	slices.SortStableFunc(requests, func(a, b *request) int { return cmp.Compare(a.key, b.key) })
	runs := gather(requests)
	ctx, cancel := context.WithTimeout(context.Background(), l.config.timeout)
	defer cancel()
	grants, err := l.store.TakeRates(ctx, runs)
	if err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("%w: no answer within %v: %w", driver.ErrUnavailable, l.config.timeout, err)
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

// gather groups consecutive equal requests into runs.
func gather(requests []*request) []driver.RateRun {
	var runs []driver.RateRun
	for _, r := range requests {
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
	}
}
