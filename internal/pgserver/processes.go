package pgserver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// signalAll sends a signal to the postmaster and then to its children, each of which has a process group of its own. A
// postmaster that is stopped or killed starts no more of them.
func (s *Server) signalAll(signal os.Signal) error {
	pid := s.PID()
	before, err := childrenOf(pid)
	if err != nil {
		return err
	}
	if err := s.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	after, err := childrenOf(pid) // those of a postmaster that has been killed have another parent
	if err != nil {
		return err
	}
	for _, child := range append(before, after...) {
		process, err := os.FindProcess(child)
		if err == nil {
			err = process.Signal(signal)
		}
		if err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("send %s to process %d of %s: %w", signal, child, s.binaries, err)
		}
	}
	return nil
}

func childrenOf(parent int) (children []int, err error) {
	text, err := exec.Command("ps", "-A", "-o", "pid=,ppid=").Output()
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		var pid, of int
		if _, err := fmt.Sscan(line, &pid, &of); err == nil && of == parent {
			children = append(children, pid)
		}
	}
	return children, nil
}
