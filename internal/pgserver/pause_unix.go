//go:build unix

package pgserver

import "syscall"

// Pause stops the postmaster with SIGSTOP: new connections hang in the kernel's queue unanswered. Sessions that exist
// go on.
func (s *Server) Pause() error { return s.Signal(syscall.SIGSTOP) }

// Resume ends a [Server.Pause].
func (s *Server) Resume() error { return s.Signal(syscall.SIGCONT) }
