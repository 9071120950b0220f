//go:build unix

package redisserver

import "syscall"

// Pause freezes the server with SIGSTOP: connections stay open, but get no answers.
func (s *Server) Pause() error { return s.signal(syscall.SIGSTOP) }

// Resume ends a [Server.Pause].
func (s *Server) Resume() error { return s.signal(syscall.SIGCONT) }
