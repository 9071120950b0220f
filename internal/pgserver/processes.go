package pgserver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"

	"github.com/pglock-toolkit/pglock/internal/supervise"
)

// signalAll sends a signal to all processes of the server, each of which has a process group of its own. The postmaster is
// stopped first, so that it starts no more of them, and gets the signal last: when it is dead they are not its children any more.
func (s *Server) signalAll(signal os.Signal) error {
	pid := s.PID()
	if err := s.Signal(supervise.SignalStop); err != nil {
		return err
	}
	err := exec.Command("pkill", fmt.Sprintf("-%d", signal), "-P", strconv.Itoa(pid)).Run()
	if ended, ok := errors.AsType[*exec.ExitError](err); ok && ended.ExitCode() == 1 { // it had no children
		err = nil
	}
	if err != nil {
		return fmt.Errorf("send %s to the processes of %s: %w", signal, s.binaries, err)
	}
	return s.Signal(signal)
}
