//go:build unix

package job

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// GuardArgument is the first argument of a guard. What follows is for [Guard].
const GuardArgument = "__guard"

// guard is the process between Start and the command.
type guard struct {
	control *os.File
	command int  // its process ID
	group   bool // the command leads a process group
	ended   bool // the command has
	killing bool // everything is to be killed
	lease   time.Duration
}

// event is something that the guard has to react to: the end of a process, an order, or the end of the process that
// started it. The zero event says that no process is left.
type event struct {
	pid    int
	status syscall.WaitStatus
	order  byte
	alone  bool
}

// Guard is the main function of a guard, and returns its exit code. The arguments are those that Start has made.
func Guard(args []string) int {
	// If the kernel ends the command with its parent, the parent is the thread that started it
	// (PR_SET_PDEATHSIG(2const)). So the main goroutine stays on its thread, which lives as long as the process.
	runtime.LockOSThread()
	g, kept, err := newGuard(args)
	if err != nil {
		fmt.Fprintln(os.Stderr, "pglock:", err)
		return 1
	}
	for fd := int(g.control.Fd()); fd <= kept; fd++ {
		syscall.CloseOnExec(fd)
	}
	Catch() // the process that started the guard passes on what is meant for the command
	surviveStop()
	adoptOrphans()
	path, argv := args[3], args[4:]
	command, err := os.StartProcess(path, argv, &os.ProcAttr{
		Env: os.Environ(), Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}, Sys: attributes(g.group),
	})
	if err != nil {
		errno := syscall.EINVAL
		errors.As(err, &errno)
		send(g.control, failed, uint32(errno))
		return 1
	}
	g.command = command.Pid
	_ = command.Release()                                // reap waits for it
	closeAll([]*os.File{os.Stdin, os.Stdout, os.Stderr}) // or a reader of a pipe would wait for the guard's end too
	send(g.control, started, 0)
	g.run()
	return 0
}

// newGuard returns the guard, and the largest file descriptor that it keeps.
func newGuard(args []string) (g *guard, kept int, err error) {
	const control = 3 // behind the standard streams
	if len(args) < 5 {
		return nil, 0, errors.New("only pglock run starts a guard")
	}
	group, groupErr := strconv.ParseBool(args[0])
	files, filesErr := strconv.Atoi(args[1])
	lease, leaseErr := time.ParseDuration(args[2])
	err = errors.Join(groupErr, filesErr, leaseErr, syscall.SetNonblock(control, true)) // for deadlines
	return &guard{control: os.NewFile(control, "control"), group: group, lease: lease}, control + files, err
}

// run returns when no process is left, or when the command has ended and the lock was released, so that what the command
// has left behind may go on.
func (g *guard) run() {
	events := make(chan event)
	go g.reap(events)
	go g.listen(events)
	for e := range events {
		switch {
		case e == event{}:
			return
		case e.pid == g.command:
			g.ended = true
			send(g.control, ended, uint32(e.status))
		case e.alone && g.ended:
			return
		case e.alone || e.order == killAll:
			g.killing = true
		case e.order == terminateAll:
			g.terminate()
		case e.order != 0 && !g.ended:
			g.signal(syscall.Signal(e.order))
		}
		if g.killing {
			g.kill() // again after each end: its children are ours now
		}
	}
}

// reap reports the end of each process that the guard has started or adopted.
func (g *guard) reap(events chan<- event) {
	for {
		pid, status, err := wait()
		if err != nil {
			events <- event{}
			return
		}
		events <- event{pid: pid, status: status}
	}
}

// listen reports orders, and the end of the process that gives them. That process renews the lock, and ends the command when
// it is lost. If it is frozen, as by Ctrl-Z, it does neither, and others can have the lock after two thirds of a lease: the guard
// ends the command before that. If both were frozen, the other one has a moment to show that it is awake again.
func (g *guard) listen(events chan<- event) {
	order := make([]byte, 1)
	for silent := 0; ; {
		patience := g.lease * 4 / 10
		if silent > 0 {
			patience = g.lease / 10
		}
		_ = g.control.SetReadDeadline(time.Now().Add(patience))
		switch _, err := g.control.Read(order); {
		case errors.Is(err, os.ErrDeadlineExceeded):
			order[0] = [...]byte{awake, terminateAll, killAll}[min(silent, 2)]
			silent++
		case err != nil:
			events <- event{alone: true}
			return
		default:
			silent = 0
		}
		if order[0] != awake {
			events <- event{order: order[0]}
		}
	}
}

// signal sends a signal to the command, or to its process group. Until the command is reaped its ID is not used again.
func (g *guard) signal(signal syscall.Signal) {
	pid := g.command
	if g.group {
		pid = -pid
	}
	_ = syscall.Kill(pid, signal) // all may have ended
}

func (g *guard) terminate() {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGCONT} { // a stopped process would not see the first
		g.signal(signal)
		for _, pid := range descendants(g.ownGroup()) {
			_ = syscall.Kill(pid, signal) // it may have ended
		}
	}
}

func (g *guard) kill() {
	g.signal(syscall.SIGKILL)
	killChildren(g.ownGroup())
}

// ownGroup returns the command's process group, or 0 if it has none of its own.
func (g *guard) ownGroup() int {
	if !g.group {
		return 0
	}
	return g.command
}

// wait waits for the end of any child. Its error says that there is none.
func wait() (pid int, status syscall.WaitStatus, err error) {
	for {
		pid, err = syscall.Wait4(-1, &status, 0, nil)
		if !errors.Is(err, syscall.EINTR) {
			return pid, status, err
		}
	}
}

// killChildren kills the descendants of this process that are not in the process group, and reports whether there were any.
func killChildren(group int) bool {
	all := descendants(group)
	for _, pid := range all {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
	}
	return len(all) > 0
}
