package driver

import (
	"sync"
	"testing"
	"time"
)

const rounds = 20_000

// To play a sleep the test takes back what is known of the time asleep, and gives another offset of the wall clock.
func TestAfterASleepNoGoroutineReadsTheClockOfBefore(t *testing.T) {
	slept, wall := known.Load(), offset.Load()
	t.Cleanup(func() { known.Store(slept); offset.Store(wall) })
	for round := range int64(20_000) {
		known.Store(slept - int64(time.Minute))
		awake := wall + (round+1)*int64(time.Second)
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				if got := suspended(awake); got < time.Duration(slept)-time.Second {
					t.Errorf("a goroutine is %v behind", time.Duration(slept)-got)
				}
			})
		}
		if all.Wait(); t.Failed() {
			return
		}
	}
}
