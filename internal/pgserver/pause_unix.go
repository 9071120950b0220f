//go:build unix

package pgserver

import "syscall"

// Pause stops the postmaster with SIGSTOP: new connections stay unanswered in the kernel's queue. Existing sessions
// continue.
func (s *Server) Pause() error { return s.Signal(syscall.SIGSTOP) }

// Resume ends a [Server.Pause].
func (s *Server) Resume() error { return s.Signal(syscall.SIGCONT) }
