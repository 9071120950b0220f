//go:build !unix

package job

import (
	"errors"
	"net"
	"os"
	"time"
)

// Job exists on Unix only: other systems have neither its signals nor process groups.
type Job struct{}

// Start fails.
func Start(string, []string, []string, []*os.File, time.Duration) (*Job, error) {
	return nil, errors.New("commands are run on Unix only")
}

// Done returns nil.
func (*Job) Done() <-chan struct{} { return nil }

// Code fails.
func (*Job) Code() (int, error) { return 0, errors.ErrUnsupported }

// Signal does nothing.
func (*Job) Signal(os.Signal) {}

// End does nothing.
func (*Job) End(time.Duration) {}

// GuardArgument is no argument of this program.
const GuardArgument = "__guard"

// Guard fails.
func Guard([]string) int { return 1 }

// Socket returns nothing.
func Socket(net.Conn) (file *os.File, ok bool) { return nil, false }

func advice(error) string { return "" }

var stopping, others = []os.Signal{os.Interrupt}, []os.Signal{}

func surviveBrokenPipe() {}
