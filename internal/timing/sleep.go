// Package timing has pauses that end with a context.
package timing

import (
	"context"
	"math/rand/v2"
	"time"
)

// Jittered returns a random duration between half of d, which is positive, and one and a half: processes should not ask together.
func Jittered(d time.Duration) time.Duration { return d/2 + rand.N(d) }

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
