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

// urlVariable passes the database's address to a worker. All users of the machine could see it on a command
// line.
const urlVariable = "PGLOCK_DEMO_URL"

// parts are the parts of workers.
var parts = map[string]func(ctx context.Context, stage stage) error{
	"transfer":        func(ctx context.Context, s stage) error { return transferWorker(ctx, s, true) },
	"transfer-nolock": func(ctx context.Context, s stage) error { return transferWorker(ctx, s, false) },
	"nightly":         nightlyWorker,
	"late":            lateWorker,
	"deploy":          deployWorker,
}

// stage is a worker's connection to its director: it prints lines, and reads its cues from lines.
type stage struct {
	url  string
	cues *bufio.Reader
}

func (s stage) tell(format string, args ...any) error {
	_, err := fmt.Printf(format+"\n", args...)
	return err
}

// await waits for the next cue; the last is the end of the input.
func (s stage) await() error {
	_, err := s.cues.ReadString('\n')
	if err == io.EOF {
		return nil
	}
	return err
}

// Worker plays a part in a separate process.
func Worker(ctx context.Context, args []string) error {
	if len(args) == 2 && args[0] == "download" {
		return download(args[1])
	}
	if len(args) != 1 || parts[args[0]] == nil {
		return fmt.Errorf("unknown part for a worker: %q", args)
	}
	if err := parts[args[0]](ctx, stage{os.Getenv(urlVariable), bufio.NewReader(os.Stdin)}); err != nil {
		return fmt.Errorf("worker %s: %w", args[0], err)
	}
	return nil
}

// worker is a worker process, as its director sees it.
type worker struct {
	cmd   *exec.Cmd
	cues  io.WriteCloser
	lines *bufio.Reader
}

func (d *Demo) command(ctx context.Context, args ...string) *exec.Cmd {
	all := append(append([]string{}, d.Worker...), args...)
	return exec.CommandContext(ctx, all[0], all[1:]...)
}

// direct starts n workers with the same part, calls the director with them, and waits for their end. If the director
// fails or ctx ends they are killed.
func (d *Demo) direct(ctx context.Context, n int, part string, director func([]*worker) error) error {
	ctx, kill := context.WithCancel(ctx)
	defer kill()
	var workers []*worker
	var err error
	for range n {
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
		if dismissed := w.dismiss(); err == nil { // or it was killed
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

// hear waits for the worker's next line.
func (w *worker) hear() (string, error) {
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

// together waits until all workers are ready, and then gives them their cue.
func together(workers []*worker) error {
	var errs []error
	for _, w := range workers {
		_, err := w.hear()
		errs = append(errs, err)
	}
	for _, w := range workers {
		errs = append(errs, w.cue())
	}
	return errors.Join(errs...)
}

// quoteAll prints one line of each worker, in order of arrival.
func (d *Demo) quoteAll(workers []*worker) error {
	type said struct {
		line string
		err  error
	}
	heard := make(chan said)
	for _, w := range workers {
		go func() {
			line, err := w.hear()
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

// dismiss lets the worker finish.
func (w *worker) dismiss() error {
	if err := errors.Join(w.cues.Close(), w.cmd.Wait()); err != nil {
		return fmt.Errorf("process %d: %w", w.cmd.Process.Pid, err)
	}
	return nil
}
