// Package timing has pauses that end with a context.
package timing

import (
	"context"
	"time"
)

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
