//go:build !linux

package wire

import "net"

// Watcher does nothing on this system: every connection is watched by a goroutine of its own.
type Watcher struct{}

// NewWatcher makes a Watcher.
func NewWatcher() (*Watcher, error) { return &Watcher{}, nil }

// Close does nothing.
func (*Watcher) Close() error { return nil }

func hasDescriptor(net.Conn) bool { return false }

func (*Watcher) watchDescriptor(net.Conn) Watch { return nil }
