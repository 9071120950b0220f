// Package worker runs this program in another process that measures on command.
package worker

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
)

// variable makes a program a worker, and contains its order.
const variable = "PGLOCK_BENCH_WORKER"

// Order returns the order of this process; empty if it is not a worker.
func Order() string { return os.Getenv(variable) }

// Process is a worker.
type Process struct {
	// Input is its standard input, which takes commands, and Output its standard output, which answers. Its standard
	// error is that of this process.
	Input  io.WriteCloser
	Output io.Reader
	cmd    *exec.Cmd
}

// Start starts a worker with an order, which must not be empty, and additional environment. The worker ends with ctx
// or with Close.
func Start(ctx context.Context, order string, environment ...string) (*Process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &Process{cmd: exec.CommandContext(ctx, program)}
	p.cmd.Env = append(append(os.Environ(), variable+"="+order), environment...)
	p.cmd.Stderr = os.Stderr
	if p.Input, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if p.Output, err = p.cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	return p, p.cmd.Start()
}

// Close closes the worker's input, which ends it, and waits for its end.
func (p *Process) Close() error { return errors.Join(p.Input.Close(), p.cmd.Wait()) }
