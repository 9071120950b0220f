package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// urlVariable passes the database's address to a worker. On a command line all users of the machine could see it.
const urlVariable = "PGLOCK_DEMO_URL"

// parts are the functions that workers run.
var parts = map[string]func(ctx context.Context, stage workerIO) error{
	"transfer":        func(ctx context.Context, s workerIO) error { return transferWorker(ctx, s, true) },
	"transfer-nolock": func(ctx context.Context, s workerIO) error { return transferWorker(ctx, s, false) },
	"nightly":         nightlyWorker,
	"late":            lateWorker,
	"deploy":          deployWorker,
}

// workerIO is a worker's connection to its director. The worker prints lines, and reads its cues as lines.
type workerIO struct {
	url   string
	input *bufio.Reader
}

func (s workerIO) printLine(format string, args ...any) error {
	_, err := fmt.Printf(format+"\n", args...)
	return err
}

// waitForCue waits for the next cue. The last cue is the end of the input.
func (s workerIO) waitForCue() error {
	_, err := s.input.ReadString('\n')
	if err == io.EOF {
		return nil
	}
	return err
}

// Worker runs a part in a separate process.
func Worker(ctx context.Context, args []string) error {
	if len(args) == 2 && args[0] == "download" {
		return download(args[1])
	}
	if len(args) != 1 || parts[args[0]] == nil {
		return fmt.Errorf("unknown part for a worker: %q", args)
	}
	if err := parts[args[0]](ctx, workerIO{os.Getenv(urlVariable), bufio.NewReader(os.Stdin)}); err != nil {
		return fmt.Errorf("worker %s: %w", args[0], err)
	}
	return nil
}

// worker is the director's side of a worker process.
type worker struct {
	cmd   *exec.Cmd
	cues  io.WriteCloser
	lines *bufio.Reader
}

func (d *Demo) command(ctx context.Context, args ...string) *exec.Cmd {
	all := append(append([]string{}, d.Worker...), args...)
	return exec.CommandContext(ctx, all[0], all[1:]...)
}

// direct starts workers with the same part, calls director with them, and waits for their end. If director fails or ctx
// ends, it kills them.
func (d *Demo) direct(ctx context.Context, part string, director func([]*worker) error) error {
	ctx, kill := context.WithCancel(ctx)
	defer kill()
	var workers []*worker
	var err error
	for range processes {
		var w *worker
		if w, err = d.worker(ctx, part); err != nil {
			break
		}
		workers = append(workers, w)
	}
	if err == nil {
		err = director(workers)
	}
	if err != nil {
		kill()
	}
	for _, w := range workers {
		if dismissed := w.finish(); err == nil { // or it was killed
			err = dismissed
		}
	}
	return err
}

func (d *Demo) worker(ctx context.Context, part string) (*worker, error) {
	cmd := d.command(ctx, part)
	cmd.Env = append(os.Environ(), urlVariable+"="+d.url(part))
	cmd.Stderr = os.Stderr
	cues, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	lines, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &worker{cmd, cues, bufio.NewReader(lines)}, nil
}

// readLine waits for the worker's next line.
func (w *worker) readLine() (string, error) {
	line, err := w.lines.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("process %d said nothing: %w", w.cmd.Process.Pid, err)
	}
	return strings.TrimSpace(line), nil
}

// cue gives the worker its next cue.
func (w *worker) cue() error {
	_, err := io.WriteString(w.cues, "\n")
	return err
}

// startTogether waits until all workers are ready, and then gives them their cue.
func startTogether(workers []*worker) error {
	var errs []error
	for _, w := range workers {
		_, err := w.readLine()
		errs = append(errs, err)
	}
	for _, w := range workers {
		errs = append(errs, w.cue())
	}
	return errors.Join(errs...)
}

// quoteAll prints a line of each worker, in order of arrival.
func (d *Demo) quoteAll(workers []*worker) error {
	type said struct {
		line string
		err  error
	}
	heard := make(chan said)
	for _, w := range workers {
		go func() {
			line, err := w.readLine()
			heard <- said{fmt.Sprintf("  process %d %s", w.cmd.Process.Pid, line), err}
		}()
	}
	var errs []error
	for range workers {
		said := <-heard
		if said.err == nil {
			d.print("%s", said.line)
		}
		errs = append(errs, said.err)
	}
	return errors.Join(errs...)
}

// finish lets the worker finish.
func (w *worker) finish() error {
	if err := errors.Join(w.cues.Close(), w.cmd.Wait()); err != nil {
		return fmt.Errorf("process %d: %w", w.cmd.Process.Pid, err)
	}
	return nil
}
