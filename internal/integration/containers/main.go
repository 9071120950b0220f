// Command containers starts a PostgreSQL container, runs a command that finds it in PGLOCK_TEST_DATABASE_URL, and
// removes the container:
//
//	PGLOCK_TEST_POSTGRES_IMAGE=postgres:13-alpine go run . -- go test ../../...
//
// It reports on stderr what it waits for. These variables of testcontainers help if its defaults do not fit:
//
//	TESTCONTAINERS_RYUK_DISABLED=true   without a registry: otherwise it pulls the image of its cleaner
//	TESTCONTAINERS_HOST_OVERRIDE=HOST   if Docker's ports are not reached at the host that it and this program find,
//	                                    as may happen in a container
//
// If no image can be pulled, debian.sh in this directory makes one from Debian's packages. It also extracts
// PostgreSQL's programs, with which the suite runs without Docker:
//
//	./debian.sh image 18 pglock-postgres:18
//	TESTCONTAINERS_RYUK_DISABLED=true PGLOCK_TEST_POSTGRES_IMAGE=pglock-postgres:18 make -C ../../.. test-containers
//
//	./debian.sh programs 18 /var/tmp/postgresql-18
//	PGLOCK_POSTGRES_BIN=/var/tmp/postgresql-18/usr/lib/postgresql/18/bin make -C ../../.. test
//
// Its exit code is the command's (which go run turns into 1), 128 plus the number of the signal that ended it, or 1 if
// there was no container.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

const (
	databaseVariable = "PGLOCK_TEST_DATABASE_URL"
	imageVariable    = "PGLOCK_TEST_POSTGRES_IMAGE"
	defaultImage     = "postgres:17-alpine"
)

func main() {
	flag.Parse()
	code, err := run(flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "containers:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func run(command []string) (code int, err error) {
	if len(command) == 0 {
		return 0, errors.New("no command to run: containers -- COMMAND [ARGUMENT…]")
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	server, err := startPostgres(ctx, image())
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, server.remove()) }()
	return runCommand(ctx, command, databaseVariable+"="+server.url)
}

func image() string {
	if image := os.Getenv(imageVariable); image != "" {
		return image
	}
	return defaultImage
}

// runCommand asks the command to end, with SIGTERM, when ctx does, and waits for it.
func runCommand(ctx context.Context, command []string, variables ...string) (code int, err error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append(os.Environ(), variables...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	err = cmd.Run()
	failed, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return 0, err
	}
	if status, ok := failed.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return failed.ExitCode(), nil
}
