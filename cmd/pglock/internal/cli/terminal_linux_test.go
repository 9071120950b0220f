package cli_test

import (
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

// onTerminal gives the process its own terminal, in whose foreground it runs. The terminal's output is in stdout.
func (p *process) onTerminal() *process {
	p.t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	must.Succeed(p.t, err)
	var unlock, number int32
	ioctl(p.t, user, syscall.TIOCSPTLCK, unsafe.Pointer(&unlock)) // pts(4)
	ioctl(p.t, user, syscall.TIOCGPTN, unsafe.Pointer(&number))
	terminal, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	must.Succeed(p.t, err)
	size := [4]uint16{24, 100}
	ioctl(p.t, terminal, syscall.TIOCSWINSZ, unsafe.Pointer(&size))
	p.Stdin, p.Stdout, p.Stderr = terminal, terminal, terminal
	p.Env = append(p.Env, "TERM=xterm")
	p.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	p.input = user
	p.start()
	must.Succeed(p.t, terminal.Close())
	p.read = make(chan struct{})
	go func() {
		defer close(p.read)
		_, _ = io.Copy(&p.stdout, user) // ends with an error when the last process has left the terminal
	}()
	p.t.Cleanup(func() {
		p.killUnlessWaited()
		<-p.read
		must.Succeed(p.t, user.Close())
	})
	return p
}

func ioctl(t testing.TB, f *os.File, request uintptr, argument unsafe.Pointer) {
	t.Helper()
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), request, uintptr(argument)); errno != 0 {
		t.Fatalf("ioctl %#x: %v", request, errno)
	}
}

// types types on the terminal.
func (p *process) types(text string) {
	p.t.Helper()
	_, err := p.input.WriteString(text)
	must.Succeed(p.t, err)
}

const ctrlC = "\x03"

func TestTerminalCtrlCReachesTheCommandOnce(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	p := on(t, db, append([]string{"run", "k", "--"}, signalReporter(t)...)...).onTerminal()
	p.waitForOutput("ready")
	const times = 5
	for n := range times {
		p.types(ctrlC)
		testenv.WaitUntil(t, "it has got another SIGINT", func() bool { return interrupts(p) > n })
	}
	p.signal(syscall.SIGTERM) // passed on to the command; comes last
	wantCode(t, p.end(), 5)
	<-p.read // its last output is still on its way
	if n := interrupts(p); n != times {
		t.Errorf("Ctrl-C %d times gave %d signals", times, n)
	}
}

func interrupts(p *process) int {
	return strings.Count(p.stdout.String(), "got "+syscall.SIGINT.String())
}

func TestTerminalTheCommandMayReadFromTheTerminal(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	p := on(t, db, "run", "k", "--", "sh", "-c", `echo ready; read -r line; echo "read $line"; exit 3`).onTerminal()
	p.waitForOutput("ready")
	p.types("something\n")
	p.waitForOutput("read something")
	wantCode(t, p.end(), 3)
}

func TestTerminalOnATerminalWaitingIsAnnounced(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	pid := hold(t, db, "SELECT pg_advisory_lock(7)")
	p := on(t, db, "run", "@7", "--", "true").onTerminal()
	p.waitForOutput(fmt.Sprintf("held by pid %d", pid))
	db.WaitForWaiters(t, 1)
	p.types(ctrlC)
	wantCode(t, p.end(), 130)
	db.WaitForWaiters(t, 0)
}

func TestTerminalRemovingTheSchemaAsksForConfirmation(t *testing.T) {
	t.Parallel()
	db := testenv.Installed(t)
	for _, test := range []struct {
		answer string
		code   int
		left   int
	}{{"y\n", 1, 0}, {"\x04", 1, 0}, {"yes\n", 0, 1}} {
		p := on(t, db, "migrate", "down").onTerminal()
		p.waitForOutput("the records of schedule, once and ratelimit")
		p.waitForOutput("and locks in rows.")
		p.waitForOutput("Type yes to continue")
		p.types(test.answer)
		wantCode(t, p.end(), test.code)
		wantCode(t, on(t, db, "migrate", "version").run(), test.left)
	}
}
