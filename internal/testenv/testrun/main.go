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
	err := run(ctx, os.Args[1:])
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) && failed.Exited() {
		os.Exit(failed.ExitCode())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testrun:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, command []string) (err error) {
	if len(command) == 0 {
		return errors.New("want a command")
	}
	began := time.Now()
	environment, stop, err := testenv.Share(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append(os.Environ(), environment...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	err = cmd.Run()
	if state := cmd.ProcessState; state != nil {
		fmt.Printf("took %v, and %v of processor time without the shared server\n", time.Since(began).Round(time.Second),
			(state.UserTime() + state.SystemTime()).Round(time.Second))
	}
	return err
}
