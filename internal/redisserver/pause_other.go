//go:build !unix

package redisserver

import "errors"

// Pause is not available on this system.
func (s *Server) Pause() error { return errors.ErrUnsupported }

// Resume is not available on this system.
func (s *Server) Resume() error { return errors.ErrUnsupported }
