package contest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Work does one unit of work. It is called by one goroutine for each worker; i counts its calls.
type Work func(ctx context.Context, worker, i int) error

// Rate measures how many units per second n goroutines do together.
func Rate(n int, work Work) func(context.Context, time.Duration) (float64, error) {
	return func(ctx context.Context, d time.Duration) (float64, error) {
		done, elapsed, err := load(ctx, n, d, work)
		return float64(done) / elapsed.Seconds(), err
	}
}

// Latency measures how many seconds a unit takes a single goroutine on average.
func Latency(work Work) func(context.Context, time.Duration) (float64, error) {
	return func(ctx context.Context, d time.Duration) (float64, error) {
		done, elapsed, err := load(ctx, 1, d, work)
		if err == nil && done == 0 {
			err = fmt.Errorf("nothing was done in %v", elapsed)
		}
		return elapsed.Seconds() / float64(done), err
	}
}

// load runs work in n goroutines for d. Units that have begun are finished, and count with their time.
func load(ctx context.Context, n int, d time.Duration, work Work) (done int64, elapsed time.Duration, err error) {
	var (
		stop  atomic.Bool
		total atomic.Int64
		fail  sync.Once
		group sync.WaitGroup
	)
	begin := time.Now()
	for worker := range n {
		group.Go(func() {
			i := 0
			for ; !stop.Load(); i++ {
				if workErr := work(ctx, worker, i); workErr != nil {
					fail.Do(func() { err = workErr })
					stop.Store(true)
					break
				}
			}
			total.Add(int64(i))
		})
	}
	timer := time.AfterFunc(d, func() { stop.Store(true) })
	group.Wait()
	timer.Stop()
	return total.Load(), time.Since(begin), err
}
