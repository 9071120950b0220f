//go:build !unix

package supervise

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"syscall"
)

// The signals that stop a process and let it go on, which this system does not have.
const (
	SignalStop     = syscall.Signal(-1)
	SignalContinue = syscall.Signal(-2)
)

type identity struct{ other bool }

func serverIdentity() (identity, error) {
	return identity{}, fmt.Errorf("throw-away servers need Unix, not %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

func (identity) own(string) error { return errors.ErrUnsupported }

func (identity) lead(*exec.Cmd) {}

func (identity) join(*exec.Cmd, int) {}
