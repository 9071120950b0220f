package testenv

import (
	"os"
	"os/signal"
	"syscall"
)

// unignoreSignals gives the processes that tests start the usual effect of signals, even if this process was started to
// ignore some, as by nohup or as a background job of a script. They inherit what is ignored, but not what is caught.
func unignoreSignals() {
	caught := make(chan os.Signal, 1) // never read
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM} {
		if signal.Ignored(s) {
			signal.Notify(caught, s)
		}
	}
}
