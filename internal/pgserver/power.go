package pgserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// Mode is how a server goes down.
type Mode int

const (
	// Fast disconnects every session, with a message, and shuts down cleanly.
	Fast Mode = iota
	// Immediate ends every process at once, as a crash does; the next start recovers.
	Immediate
	// Killed ends every process by SIGKILL. That is possible on Unix.
	Killed
)

func (m Mode) signal() os.Signal {
	if m == Immediate {
		return syscall.SIGQUIT
	}
	return syscall.SIGINT
}

var errDown = errors.New("the server is down")

// Down shuts the server down, and waits up to two minutes for its end. Its port and its data stay for [Server.Up].
func (s *Server) Down(ctx context.Context, mode Mode) error {
	s.starting.Lock()
	defer s.starting.Unlock()
	if err := s.shutDown(ctx, mode); err != nil {
		return fmt.Errorf("shut down %s: %w", s.binaries, err)
	}
	return nil
}

// Up starts a server that is down, on the same port and data, and returns when it accepts connections.
func (s *Server) Up(ctx context.Context) error {
	s.starting.Lock()
	defer s.starting.Unlock()
	if err := s.startAgain(ctx); err != nil {
		return fmt.Errorf("start %s again: %w", s.binaries, err)
	}
	return nil
}

// Restart is [Server.Down] and [Server.Up].
func (s *Server) Restart(ctx context.Context, mode Mode) error {
	if err := s.Down(ctx, mode); err != nil {
		return err
	}
	return s.Up(ctx)
}

// Signal sends a signal to the postmaster.
func (s *Server) Signal(signal os.Signal) error {
	postmaster := s.running()
	if postmaster == nil {
		return fmt.Errorf("send %s to %s: %w", signal, s.binaries, errDown)
	}
	if err := postmaster.Signal(signal); err != nil {
		return fmt.Errorf("send %s to %s: %w", signal, s.binaries, err)
	}
	return nil
}

func (s *Server) shutDown(ctx context.Context, mode Mode) error {
	postmaster := s.running()
	if postmaster == nil {
		return errDown
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if mode == Killed {
		if err := s.signalAll(os.Kill); err != nil {
			return err
		}
	} else if err := postmaster.Signal(mode.signal()); err != nil {
		return err
	}
	select {
	case <-postmaster.Done():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// startAgain keeps trying to get its port back, in case another program has taken it for a moment.
func (s *Server) startAgain(ctx context.Context) error {
	if s.running() != nil {
		return errors.New("it is already running")
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		err := s.startInstance(ctx)
		if !errors.Is(err, errPortTaken) {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, context.Cause(ctx))
		case <-time.After(pollInterval):
		}
	}
}
