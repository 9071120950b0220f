package delay

import (
	"errors"
	"syscall"
	"time"
)

// prSetTimerslack is PR_SET_TIMERSLACK of linux/prctl.h.
const prSetTimerslack = 29

// sleepUntil is more precise than Go's own timers. Those wait in epoll_wait, which counts in milliseconds. Linux also
// merges wake-ups that are less than 50 µs apart, unless the thread asks it not to (prctl(2)).
func sleepUntil(t time.Time) {
	for {
		d := time.Until(t)
		if d <= 0 {
			return
		}
		request := syscall.NsecToTimespec(int64(d))
		_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, prSetTimerslack, 1, 0) // if it fails the delay is a little longer
		if err := syscall.Nanosleep(&request, nil); err != nil && !errors.Is(err, syscall.EINTR) {
			time.Sleep(d)
		}
	}
}
