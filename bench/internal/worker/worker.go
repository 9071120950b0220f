// Package worker runs this program once more, as a process of its own that measures when it is told to.
package worker

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
)

// variable makes a program a worker, and has its order.
const variable = "PGLOCK_BENCH_WORKER"

// Order returns what this process was told at its start; empty when it is no worker.
func Order() string { return os.Getenv(variable) }

// Process is a worker.
type Process struct {
	// Input is its standard input, which takes commands, and Output its standard output, which answers. What it writes
	// to its standard error comes out here.
	Input  io.WriteCloser
	Output io.Reader
	cmd    *exec.Cmd
}

// Start starts a worker with an order, which is not empty, and more environment. It is ended with ctx, if it was not
// before by Close.
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

// Close closes the worker's input, which ends it, and waits for that.
func (p *Process) Close() error { return errors.Join(p.Input.Close(), p.cmd.Wait()) }
