package contest

import (
	"context"
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

// load runs work in n goroutines for d. Each does one unit at least, and finishes what it has begun: that counts with
// its time.
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
			for ; i == 0 || !stop.Load(); i++ {
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
