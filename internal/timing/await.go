// Package timing has pauses that end with a context, and the wait for the time at which a job is due.
package timing

import (
	"context"
	"time"
)

// Await takes a step of a run once the server's clock has reached the due time, and reports whether the run had been
// done. step asks the server, which takes no step before that time, and returns the server's clock and whether the run is done.
//
// The server's clock may be set, and after a failover it is another one, so Await asks again every minute.
func Await(ctx context.Context, due time.Time, step func() (at time.Time, done bool, err error)) (done bool, err error) {
	for {
		at, done, err := step()
		if err != nil || done || !due.After(at) {
			return done, err
		}
		if !Sleep(ctx, min(due.Sub(at), lookEvery)) {
			return false, context.Cause(ctx)
		}
	}
}

const lookEvery = time.Minute

// Sleep sleeps for d, and reports whether ctx lasted that long.
func Sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
