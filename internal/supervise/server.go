package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// Program says how to run a server, which listens on a port of 127.0.0.1.
type Program struct {
	// Name is for errors, such as "PostgreSQL 17.5".
	Name string
	// Command returns the command for a port. It is called for each start.
	Command func(port int) (*exec.Cmd, error)
	// Answers asks the server for an answer, and returns an error as long as there is none.
	Answers func(ctx context.Context) error
	// Taken is what the program says when another process has the port.
	Taken string
}

// Server is a server to which faults can happen. Its methods may be called concurrently; those that bring it up or down wait
// for each other.
type Server struct {
	*Supervisor
	program  Program
	starting sync.Mutex // held while the server is brought up or down

	mu      sync.Mutex // guards the fields below
	port    int
	process *process // nil, or ended, while the server is down
}

// NewServer returns a server that runs in the directory of s, and is down.
func (s *Supervisor) NewServer(program Program) *Server {
	return &Server{Supervisor: s, program: program}
}

// startTimeout bounds a start and an end, in addition to the caller's context. Recovery may take long on a busy machine.
const startTimeout = 2 * time.Minute

// pollInterval is the pause between two checks whether a server answers.
const pollInterval = 10 * time.Millisecond

var (
	errPortTaken = errors.New("the port is taken")
	errDown      = errors.New("the server is down")
)

// Up starts the server and returns when it answers: the first time on a free port, and later on the same one, which another
// program may have taken for a moment.
func (s *Server) Up(ctx context.Context) error {
	s.starting.Lock()
	defer s.starting.Unlock()
	if err := s.up(ctx); err != nil {
		return fmt.Errorf("start %s: %w", s.program.Name, err)
	}
	return nil
}

func (s *Server) up(ctx context.Context) error {
	if s.running() != nil {
		return errors.New("it is already running")
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	port := s.Port()
	first := port == 0
	for {
		if first {
			var err error
			if port, err = FreePort(); err != nil {
				return err
			}
		}
		err := s.upOn(ctx, port)
		if !errors.Is(err, errPortTaken) || !pause(ctx) {
			return err
		}
	}
}

func (s *Server) upOn(ctx context.Context, port int) error {
	cmd, err := s.program.Command(port)
	if err != nil {
		return err
	}
	process, err := s.run(cmd, s.LogFile())
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.port, s.process = port, process
	s.mu.Unlock()
	for {
		err := s.program.Answers(ctx)
		switch {
		case process.ended():
			return s.whyEnded(process)
		case err == nil:
			return nil
		case !pause(ctx):
			return fmt.Errorf("%w while waiting for its answer: %w\n%s", context.Cause(ctx), err, LastLines(process.said()))
		}
	}
}

func (s *Server) whyEnded(p *process) error {
	if strings.Contains(p.said(), s.program.Taken) {
		return fmt.Errorf("%w: %d", errPortTaken, s.Port())
	}
	return fmt.Errorf("it ended: %w\n%s", p.err, LastLines(p.said()))
}

// pause reports whether ctx lasts.
func pause(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(pollInterval):
		return true
	}
}

// LastLines is the end of a program's output, indented below an error.
func LastLines(text string) string {
	const most = 15
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return "  " + strings.Join(lines[max(0, len(lines)-most):], "\n  ")
}

// Down has the server told to end, by a function such as [Server.Signal], and waits for its end. Its port and its files stay
// for [Server.Up].
func (s *Server) Down(ctx context.Context, tell func(os.Signal) error, signal os.Signal) error {
	s.starting.Lock()
	defer s.starting.Unlock()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	process, err := s.running(), errDown
	if process != nil {
		err = tell(signal)
	}
	if err == nil {
		select {
		case <-process.done:
			return nil
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	return fmt.Errorf("end %s: %w", s.program.Name, err)
}

// Signal sends a signal to the server's process.
func (s *Server) Signal(signal os.Signal) error {
	process, err := s.running(), errDown
	if process != nil {
		err = process.Signal(signal)
	}
	if err != nil {
		return fmt.Errorf("send %s to %s: %w", signal, s.program.Name, err)
	}
	return nil
}

// Pause stops the server's process with SIGSTOP, where there is that signal: its connections stay open, and new ones stay in
// the kernel's queue, but it does not answer. [Server.Stop] ends a stopped server, too.
func (s *Server) Pause() error { return s.Signal(SignalStop) }

// Resume ends a [Server.Pause].
func (s *Server) Resume() error { return s.Signal(SignalContinue) }

// Port returns the port on 127.0.0.1. After the first start it stays the same.
func (s *Server) Port() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.port
}

// PID returns the process ID, or 0 while the server is down.
func (s *Server) PID() int {
	if process := s.running(); process != nil {
		return process.Pid
	}
	return 0
}

// LogFile returns the path of what the server says.
func (s *Server) LogFile() string { return s.Path("log") }

// Stop ends the server at once, and removes its files. The Server cannot be used afterwards. A second Stop does nothing.
func (s *Server) Stop() error {
	if err := s.Close(); err != nil {
		return fmt.Errorf("stop %s: %w", s.program.Name, err)
	}
	return nil
}

// running returns nil while the server is down.
func (s *Server) running() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil || s.process.ended() {
		return nil
	}
	return s.process
}
