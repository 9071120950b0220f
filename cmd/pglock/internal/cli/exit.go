package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/job"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/internal/trust"
	"github.com/pglock-toolkit/pglock/migrations"
	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
)

// Exit codes; 64 and above are those of sysexits(3). Package main lists them for users.
const (
	codeOther        = 1
	codeLate         = 124 // as of timeout(1)
	codeUsage        = 64  // EX_USAGE
	codeUntrusted    = 65  // EX_DATAERR
	codeNoSession    = 66  // EX_NOINPUT
	codeUnavailable  = 69  // EX_UNAVAILABLE
	codeLost         = 70  // EX_SOFTWARE
	codeHeld         = 75  // EX_TEMPFAIL
	codeNotPermitted = 77  // EX_NOPERM
	codeUnfit        = 78  // EX_CONFIG

	codeBrokenPipe = 128 + 13 // as of a process ended by SIGPIPE
)

// exit is an error that sets the exit code. If it wraps no error there is nothing to print.
type exit struct {
	code int
	err  error
}

func (e *exit) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exit) Unwrap() error { return e.err }

// misuse is the error of a command that was called wrongly; it refers to the help of cmd.
func misuse(cmd *cobra.Command, format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	return &exit{codeUsage, fmt.Errorf("%w (see %s --help)", err, cmd.CommandPath())}
}

// report prints an error, if there is one to print, and returns the exit code.
func report(w io.Writer, err error) int {
	if err == nil {
		return 0
	}
	if outputClosed(err) {
		return codeBrokenPipe
	}
	if exit, ok := errors.AsType[*exit](err); !ok || exit.err != nil {
		say(w, "%v", err)
	}
	return code(err)
}

// outputClosed reports whether the reader of the output has exited, as head(1) does. That is not an
// error.
func outputClosed(err error) bool {
	file, ok := errors.AsType[*fs.PathError](err)
	return ok && errors.Is(file, syscall.EPIPE)
}

// say prints a message. It starts with the program's name; some errors already do.
func say(w io.Writer, format string, args ...any) {
	lines := strings.Split(strings.TrimPrefix(fmt.Sprintf(format, args...), program), "\n")
	for i, line := range lines {
		lines[i] = view.Printable(strings.ReplaceAll(line, "\t", "  "))
	}
	_, _ = fmt.Fprintln(w, program+strings.Join(lines, "\n")) // there is nowhere else to report an error
}

// program is the beginning of every message, and of every error of package pglock.
const program = "pglock: "

// code returns the exit code for an error.
func code(err error) int {
	if exit, ok := errors.AsType[*exit](err); ok {
		return exit.code
	}
	if stopped, ok := errors.AsType[*job.Stopped](err); ok {
		return stopped.Code()
	}
	if start, ok := errors.AsType[*job.StartError](err); ok {
		return start.Code
	}
	switch {
	case errors.Is(err, pglock.ErrInvalidKey), errors.Is(err, trust.ErrUnknownRole):
		return codeUsage
	case errors.Is(err, pglock.ErrUntrusted), errors.Is(err, migrations.ErrForeignSchema):
		return codeUntrusted
	case errors.Is(err, monitor.ErrNoSession):
		return codeNoSession
	case errors.Is(err, monitor.ErrNotPermitted):
		return codeNotPermitted
	case errors.Is(err, pglock.ErrLost):
		return codeLost
	case cannotLock(err):
		return codeUnavailable
	case errors.Is(err, pglock.ErrNotAcquired):
		return codeHeld
	}
	return codeOther
}

// cannotLock reports whether err says that there is no server, or one that cannot keep locks.
func cannotLock(err error) bool {
	for _, reason := range []error{pglock.ErrUnavailable, pglock.ErrDenied, pglock.ErrPooler, pglock.ErrStandby, pglock.ErrUnsupported,
		pglock.ErrTooManyLocks, io.EOF, io.ErrUnexpectedEOF, context.DeadlineExceeded} {
		if errors.Is(err, reason) {
			return true
		}
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*net.OpError](err); ok { // every failed system call is a net.Error, even on files
		return true
	}
	return sqlstate.In(err, sqlstate.ClassConnectionException, sqlstate.ClassShutdown)
}
