package pgserver

import (
	"context"
	"fmt"
	"os"
	"syscall"

	"github.com/pglock-toolkit/pglock/internal/supervise"
)

// How a server goes down.
const (
	// Fast disconnects every session, with a message, and shuts down cleanly.
	Fast = syscall.SIGINT
	// Immediate ends every process at once, as a crash does; the next start recovers.
	Immediate = syscall.SIGQUIT
	// Killed ends every process by SIGKILL. That is possible on Unix.
	Killed = syscall.SIGKILL
)

// Down shuts the server down, and waits up to two minutes for its end. Its port and its data stay for [Server.Up].
func (s *Server) Down(ctx context.Context, how os.Signal) error {
	if how == Killed {
		return s.Server.Down(ctx, s.signalAll, how)
	}
	return s.Server.Down(ctx, s.Signal, how)
}

// Restart is [Server.Down] and Up.
func (s *Server) Restart(ctx context.Context, how os.Signal) error {
	if err := s.Down(ctx, how); err != nil {
		return err
	}
	return s.Up(ctx)
}

// Freeze stops all processes of the server with SIGSTOP: whatever it is asked stays unanswered, and its connections stay
// open. [Server.Down] with Killed ends a frozen server, too.
func (s *Server) Freeze() error { return s.signalAll(supervise.SignalStop) }

// Thaw ends a [Server.Freeze].
func (s *Server) Thaw() error { return s.signalAll(supervise.SignalContinue) }

// Promote makes a standby a primary, and returns when it accepts writes. Its old primary is not touched.
func (s *Server) Promote(ctx context.Context) error {
	promote := s.Command(ctx, s.binaries.program("pg_ctl"), "promote", "--wait", "--pgdata="+s.dataDir())
	if err := run(promote); err != nil {
		return fmt.Errorf("promote %s: %w", s.binaries, err)
	}
	return nil
}
