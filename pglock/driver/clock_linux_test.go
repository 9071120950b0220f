package driver

import (
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"
)

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

// In a time namespace CLOCK_BOOTTIME can be behind CLOCK_MONOTONIC.
func TestTheClockBeginsWithTheProcessInATimeNamespaceToo(t *testing.T) {
	if since := Now().Sub(Instant(start.UnixNano())); since < 0 || since > time.Since(start)+time.Second {
		t.Errorf("the clock shows %v since the start", since)
	}
	if os.Getenv("PGLOCK_TEST_TIME_NAMESPACE") != "" {
		return
	}
	namespace := []string{"--time", "--boottime", "-1000", "--fork"}
	if out, err := exec.Command("unshare", append(namespace, "true")...).CombinedOutput(); err != nil {
		t.Skipf("only with the right to make a time namespace: %v: %s", err, out)
	}
	child := exec.Command("unshare", append(namespace, os.Args[0], "-test.run", "^"+t.Name()+"$")...)
	child.Env = append(os.Environ(), "PGLOCK_TEST_TIME_NAMESPACE=1")
	if out, err := child.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
