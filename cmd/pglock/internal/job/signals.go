package job

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

// Stopped is the error of a wait that was ended by a signal.
type Stopped struct{ signal syscall.Signal }

func (s *Stopped) Error() string {
	return fmt.Sprintf("ended by signal %d (%v)", int(s.signal), s.signal)
}

// Code returns the exit code that a shell reports for a process ended by the signal.
func (s *Stopped) Code() int { return signalBase + int(s.signal) }

// Signals are the signals that this process catches.
type Signals struct{ arrived chan os.Signal }

// Catch starts to catch signals. Those that this process has ignored from its start, as under nohup(1), stay
// ignored, for the command too. It lasts until the process ends.
func Catch() *Signals {
	s := &Signals{arrived: make(chan os.Signal, 16)}
	for _, wanted := range slices.Concat(stopping, others) {
		if !signal.Ignored(wanted) {
			signal.Notify(s.arrived, wanted)
		}
	}
	surviveBrokenPipe()
	return s
}

// Arrived delivers the signals.
func (s *Signals) Arrived() <-chan os.Signal { return s.arrived }

// While calls wait with a context that ends when a signal to stop arrives. [context.Cause] is then a *[Stopped], and so is
// the error. If the signal arrives too late to end the wait, While returns its result together with that error. It drops
// other signals.
func While[T any](ctx context.Context, s *Signals, wait func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	returned, watched := make(chan struct{}), make(chan *Stopped, 1)
	go func() {
		stopped := s.untilStopped(returned)
		if stopped != nil {
			cancel(stopped)
		}
		watched <- stopped
	}()
	result, err := wait(ctx)
	close(returned)
	if stopped := <-watched; stopped != nil {
		return result, stopped
	}
	return result, err
}

// untilStopped returns nil if the wait has returned.
func (s *Signals) untilStopped(returned <-chan struct{}) *Stopped {
	for {
		select {
		case arrived := <-s.arrived:
			if slices.Contains(stopping, arrived) {
				signal.Reset(stopping...) // an impatient user sends another signal
				return &Stopped{arrived.(syscall.Signal)}
			}
		case <-returned:
			return nil
		}
	}
}
