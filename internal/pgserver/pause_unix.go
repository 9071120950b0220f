//go:build unix

package pgserver

import "syscall"

// Freeze stops all processes of the server with SIGSTOP: whatever it is asked stays unanswered, and its connections stay
// open. [Server.Down] with Killed ends a frozen server, too.
func (s *Server) Freeze() error { return s.signalAll(syscall.SIGSTOP) }

// Thaw ends a [Server.Freeze].
func (s *Server) Thaw() error { return s.signalAll(syscall.SIGCONT) }

// Pause stops the postmaster with SIGSTOP: new connections stay unanswered in the kernel's queue. Existing sessions
// continue.
func (s *Server) Pause() error { return s.Signal(syscall.SIGSTOP) }

// Resume ends a [Server.Pause].
func (s *Server) Resume() error { return s.Signal(syscall.SIGCONT) }
