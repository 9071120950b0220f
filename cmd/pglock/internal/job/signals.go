package job

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

// Stopped is the error of a wait that a signal has ended.
type Stopped struct{ signal syscall.Signal }

func (s *Stopped) Error() string {
	return fmt.Sprintf("ended by signal %d (%v)", int(s.signal), s.signal)
}

// Code is what a shell reports of a process that the signal has ended.
func (s *Stopped) Code() int { return signalBase + int(s.signal) }

// Signals are those that this process gets instead of being ended by them.
type Signals struct{ arrived chan os.Signal }

// Catch begins to collect signals. Those that this process has ignored from its start, as under nohup(1), are left
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

// While calls wait with a context that ends when a signal arrives that asks to stop; [context.Cause] is then a
// *[Stopped], and so is the error. If it arrived too late to end the wait, its result is returned together with that
// error. Other signals have no recipient, and are dropped.
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

// untilStopped returns nil when there is nothing to wait for any more.
func (s *Signals) untilStopped(returned <-chan struct{}) *Stopped {
	for {
		select {
		case arrived := <-s.arrived:
			if slices.Contains(stopping, arrived) {
				signal.Reset(stopping...) // who cannot wait for the end of the wait sends another one
				return &Stopped{arrived.(syscall.Signal)}
			}
		case <-returned:
			return nil
		}
	}
}
