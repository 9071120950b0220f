package delay

import (
	"errors"
	"runtime"
	"syscall"
	"time"
)

// prSetTimerslack is PR_SET_TIMERSLACK of linux/prctl.h.
const prSetTimerslack = 29

// precise makes sleeping precise on this goroutine, until release is called. Go's own timers wait in epoll_wait, which
// counts in milliseconds, and Linux adds 50 µs to let wake-ups coincide (prctl(2)).
func precise() (release func()) {
	runtime.LockOSThread()
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, prSetTimerslack, 1, 0) // without it the delay is a little longer
	return func() {
		_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, prSetTimerslack, 0, 0) // 0 is the default
		runtime.UnlockOSThread()
	}
}

func sleepUntil(t time.Time) {
	for {
		d := time.Until(t)
		if d <= 0 {
			return
		}
		request := syscall.NsecToTimespec(int64(d))
		if err := syscall.Nanosleep(&request, nil); err != nil && !errors.Is(err, syscall.EINTR) {
			time.Sleep(d)
		}
	}
}
