//go:build unix

package job

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/term"
)

// Job is a running command. Its methods may be called from many goroutines at once.
type Job struct {
	group   bool     // the command has its own process group
	control *os.File // to and from the guard

	done   chan struct{} // closed when the command has ended
	gone   chan struct{} // closed when the guard, and with it all that the command has started, has ended
	status syscall.WaitStatus
	err    error // why status is unknown; both are written before done is closed
}

// Start starts the program at path with the arguments argv, the first of which is its name, and the environment env.
// It is called once in a process, which may start no other one. The guard keeps the files open until nothing of the command
// runs any more; Start closes them here. It ends the command if this process is frozen for most of the lease. Its error is
// a *[StartError] if it is about the program.
func Start(path string, argv, env []string, keep []*os.File, lease time.Duration) (*Job, error) {
	defer closeAll(keep)
	ours, theirs, err := pair()
	if err != nil {
		return nil, fmt.Errorf("make a socket for the guard of %q: %w", argv[0], err)
	}
	defer closeAll([]*os.File{theirs})
	j := &Job{group: !term.Controlled(), control: ours, done: make(chan struct{}), gone: make(chan struct{})}
	adoptOrphans()
	args := append([]string{"pglock", GuardArgument, strconv.FormatBool(j.group), strconv.Itoa(len(keep)), lease.String(), path}, argv...)
	guard, err := os.StartProcess(self(), args, &os.ProcAttr{
		Env: env, Files: append([]*os.File{os.Stdin, os.Stdout, os.Stderr, theirs}, keep...),
		Sys: &syscall.SysProcAttr{Setpgid: j.group}, // a signal to the group of this process must not end the guard too
	})
	if err != nil {
		return nil, fmt.Errorf("start the guard of %q: %w", argv[0], err)
	}
	_ = guard.Release() // reap waits for it
	go reapAll()
	kind, value, err := receive(ours)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the guard of %q has ended: %w", argv[0], err)
	case kind == failed:
		return nil, startError(argv[0], syscall.Errno(value))
	}
	go j.watch()
	go j.beat(lease / 10)
	return j, nil
}

// beat tells the guard that this process is not frozen.
func (j *Job) beat(every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			j.order(awake)
		case <-j.gone:
			return
		}
	}
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close() // another process has it
	}
}

// self names this program, also after its file has been replaced.
func self() string {
	const linux = "/proc/self/exe"
	if _, err := os.Stat(linux); err == nil {
		return linux
	}
	path, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return path
}

// reapAll waits for all processes that this one has started or adopted. As process 1 of a container it gets every orphan.
func reapAll() {
	for {
		if _, _, err := wait(); err != nil {
			return
		}
	}
}

// watch receives what the guard says.
func (j *Job) watch() {
	defer close(j.gone)
	kind, value, err := receive(j.control)
	if err != nil || kind != ended {
		j.err = errors.New("its guard was killed")
		for killChildren(0) {
			time.Sleep(10 * time.Millisecond) // until reapAll has seen their ends
		}
		close(j.done)
		return
	}
	j.status = syscall.WaitStatus(value)
	close(j.done)
	_, _ = io.Copy(io.Discard, j.control) // nothing follows but the end
}

// Done is closed when the command has ended. Processes that it started may still run.
func (j *Job) Done() <-chan struct{} { return j.done }

// Code waits for the end of the command and returns its exit code, or 128 and the number of the signal that ended it.
// The error says that it is unknown.
func (j *Job) Code() (int, error) {
	<-j.done
	switch {
	case j.err != nil:
		return 0, fmt.Errorf("the command was killed: %w", j.err)
	case j.status.Signaled():
		return signalBase + int(j.status.Signal()), nil
	}
	return j.status.ExitStatus(), nil
}

// Signal passes on a signal that this process got, unless the terminal has also sent it to the command: a second
// Ctrl-C has another meaning to many programs.
func (j *Job) Signal(signal os.Signal) {
	if !j.group && fromTerminal(signal) && term.Foreground() {
		return
	}
	j.order(byte(signal.(syscall.Signal)))
}

// End ends the command and everything that it has started. It sends SIGTERM, and after grace SIGKILL.
func (j *Job) End(grace time.Duration) {
	j.order(terminateAll)
	select {
	case <-j.gone:
		return
	case <-time.After(grace):
	}
	j.order(killAll)
	<-j.gone
}

// order ignores errors: they mean that the guard has ended, and with it the command.
func (j *Job) order(what byte) { _, _ = j.control.Write([]byte{what}) }

// What this process writes to the guard is one byte: the number of a signal for the command, or one of these.
const (
	awake        = 253
	terminateAll = 254
	killAll      = 255
)

// What the guard writes are messages of a kind and a value.
const (
	started = iota
	failed  // with the error number
	ended   // with the command's wait status
)

func send(to io.Writer, kind byte, value uint32) {
	_, _ = to.Write(binary.BigEndian.AppendUint32([]byte{kind}, value)) // if the receiver is gone, the guard reads that
}

func receive(from io.Reader) (kind byte, value uint32, err error) {
	var message [5]byte
	if _, err := io.ReadFull(from, message[:]); err != nil {
		return 0, 0, err
	}
	return message[0], binary.BigEndian.Uint32(message[1:]), nil
}
