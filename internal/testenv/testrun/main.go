// Command testrun runs a command, such as go test, with a PostgreSQL server that all packages share whose tests do not break
// it, and prints what the run took.
//
//	go run ./internal/testenv/testrun go test ./...
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/pglock-toolkit/pglock/internal/testenv"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	code, err := run(ctx, os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "testrun:", err)
	}
	os.Exit(code)
}

// run returns the command's exit code; 1 if there is none.
func run(ctx context.Context, command []string) (code int, err error) {
	if len(command) == 0 {
		return 1, errors.New("want a command")
	}
	began := time.Now()
	environment, stop, err := testenv.Share(ctx)
	if err != nil {
		return 1, err
	}
	defer func() {
		if stopErr := stop(); stopErr != nil {
			code, err = 1, errors.Join(err, stopErr)
		}
	}()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append(os.Environ(), environment...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	err = cmd.Run()
	state := cmd.ProcessState
	if state != nil {
		fmt.Printf("took %v, and %v of processor time without the shared server\n", time.Since(began).Round(time.Second),
			(state.UserTime() + state.SystemTime()).Round(time.Second))
	}
	if state != nil && state.Exited() {
		return state.ExitCode(), nil
	}
	return 1, err
}
