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
	// queues is how many statements can be in flight at once. A key is always in the same queue, so concurrent requests
	// for it share a statement, and no statement of this process waits on the server for another one.
	queues = 2
	// maxBatch is the largest number of requests in a statement.
	maxBatch = 4096
)

// queue holds the batches that wait to be sent, one at a time.
type queue struct {
	limiter *Limiter

	mu      sync.Mutex
	batches []*batch
	sending bool
}

// batch holds the requests that one statement carries, in the order in which they came.
type batch struct {
	requests []*request
	answered chan struct{} // closed when all of them have their answers
}

// decide waits for the answer to r, or withdraws r if ctx ends before it is sent. After an error r may still be on its
// way to the server.
//
// If ctx ends just as r is about to be sent, mu decides: a request that has left the queue is sent.
func (l *Limiter) decide(ctx context.Context, r *request) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	q := &l.queues[maphash.String(l.seed, r.key)%queues]
	b := q.add(r)
	select {
	case <-b.answered:
		return r.err
	case <-ctx.Done():
	}
	if q.withdraw(b, r) {
		return context.Cause(ctx)
	}
	select {
	case <-b.answered: // just then
		return r.err
	default:
		return fmt.Errorf("%w (it was on its way, and may have been counted)", context.Cause(ctx))
	}
}

func (q *queue) add(r *request) *batch {
	q.mu.Lock()
	defer q.mu.Unlock()
	last := len(q.batches) - 1
	if last < 0 || len(q.batches[last].requests) >= maxBatch {
		q.batches = append(q.batches, &batch{answered: make(chan struct{})})
		last++
	}
	b := q.batches[last]
	b.requests = append(b.requests, r)
	if !q.sending {
		q.sending = true
		go q.sendAll()
	}
	return b
}

// withdraw removes r from b, and reports false if b is no longer queued.
func (q *queue) withdraw(b *batch, r *request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !slices.Contains(q.batches, b) {
		return false
	}
	i := slices.Index(b.requests, r)
	b.requests = slices.Delete(b.requests, i, i+1)
	return true
}

// next removes the first batch from the queue and returns it; all its requests may have been withdrawn. If there is no
// batch, sending stops until the next request starts it again. Both happen under mu, so no request stays unsent.
func (q *queue) next() (b *batch, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.batches) == 0 {
		q.batches, q.sending = nil, false
		return nil, false
	}
	b, q.batches = q.batches[0], q.batches[1:]
	return b, true
}

// sendAll sends the queued requests until none is left.
func (q *queue) sendAll() {
	for {
		runtime.Gosched() // lets callers that are about to ask join
		b, ok := q.next()
		if !ok {
			return
		}
		if len(b.requests) > 0 {
			q.limiter.send(b.requests)
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
func gather(requests []*request) []Run {
	var runs []Run
	for _, r := range requests {
		run := Run{
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
func share(run []*request, g Grant) {
	end := g.Start + g.Granted*run[0].price()
	for i, r := range run {
		r.at, r.err = g.At, g.Err
		r.ok = int64(i) < g.Granted
		r.before = end
		r.until = g.Start + int64(i+1)*r.price()
	}
}
