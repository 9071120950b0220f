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
	// lanes is how many statements are on their way at once. A key is always in the same lane, so all who want it at one
	// moment are in one statement, and none of this process waits for another of it on the server.
	lanes = 2
	// maxFlight is how many requests a statement carries at most.
	maxFlight = 4096
)

// lane is a line of requests, and the one statement that carries the first of them.
type lane struct {
	limiter *Limiter

	mu     sync.Mutex
	line   []*request
	flying bool
}

// decide has r answered, or withdrawn when ctx ends before it is sent.
//
// Who is first when ctx ends and r is about to be sent is decided under mu: what has left the line is sent.
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

// withdraw takes r out of the line, and reports false when it has left it already.
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

// next takes the first of the line out of it. When there is none it is no longer flying, and the next to come starts it
// again: both happen under mu, so no caller is left behind.
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

// fly sends what has gathered until there is nothing left.
func (l *lane) fly() {
	for {
		runtime.Gosched() // so that callers which are about to ask join in
		batch := l.next()
		if len(batch) == 0 {
			return
		}
		l.limiter.send(batch)
	}
}

// send has a batch answered. It does not depend on the context of any of its callers.
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

// gather makes runs of requests that are alike and follow each other.
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
