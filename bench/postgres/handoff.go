package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/pglock-toolkit/pglock/bench/internal/contest"
	"github.com/pglock-toolkit/pglock/bench/internal/report"
)

// handoffKey is the lock that two processes pass to each other.
const handoffKey = 11

// handoff compares the time from the release in one process to the grant in another that waits, with that of two plain
// connections. The same two processes do both.
func handoff(ctx context.Context, l *lab) (_ []report.Line, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var workers [2]*worker
	for i := range workers {
		if workers[i], err = startWorker(ctx, l.connString()); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, workers[i].close()) }()
	}
	relay := func(kind string) func(context.Context, time.Duration) (float64, error) {
		return func(ctx context.Context, d time.Duration) (float64, error) {
			return l.passAround(ctx, kind, workers, d)
		}
	}
	series, err := contest.Run(ctx, l.plan,
		contest.Contestant{Name: "pglock", Measure: relay(ours)},
		contest.Contestant{Name: "plain", Measure: relay(plain)})
	if err != nil {
		return nil, err
	}
	line := compared("process A to process B", report.Seconds, series[0], series[1])
	return []report.Line{line.Aim(report.AtMost, 1.25)}, nil
}

// passAround passes the lock to and fro for d, and returns the median of what that took.
func (l *lab) passAround(ctx context.Context, kind string, workers [2]*worker, d time.Duration) (float64, error) {
	var times contest.Series
	for deadline := time.Now().Add(d); len(times) < 2 || time.Now().Before(deadline); {
		holder, waiter := workers[len(times)%2], workers[(len(times)+1)%2]
		took, err := l.passOn(ctx, kind, holder, waiter)
		if err != nil {
			return 0, err
		}
		times = append(times, took.Seconds())
	}
	return times.Median(), nil
}

// passOn lets the holder lock, the waiter wait, and the holder release.
func (l *lab) passOn(ctx context.Context, kind string, holder, waiter *worker) (time.Duration, error) {
	if _, err := holder.call(kind, "lock"); err != nil {
		return 0, err
	}
	granted := waiter.start(kind, "lock")
	if err := l.awaitWaiter(ctx); err != nil {
		return 0, err
	}
	released, err := holder.call(kind, "unlock")
	if err != nil {
		return 0, err
	}
	got := <-granted
	if got.err != nil {
		return 0, got.err
	}
	if _, err := waiter.call(kind, "unlock"); err != nil {
		return 0, err
	}
	return got.at.Sub(released), nil
}

// awaitWaiter returns when somebody stands in the server's queue.
func (l *lab) awaitWaiter(ctx context.Context) error {
	for {
		var waiting bool
		err := l.admin.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)").
			Scan(&waiting)
		if err != nil || waiting {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("nobody waits for the lock: %w", context.Cause(ctx))
		case <-time.After(time.Millisecond):
		}
	}
}

// worker is another process that locks and unlocks when it is told to.
type worker struct {
	cmd     *exec.Cmd
	input   io.WriteCloser
	answers *bufio.Scanner
}

// answer is when a lock was granted, or when its release began.
type answer struct {
	at  time.Time
	err error
}

// workerVariable makes this program a worker, and tells it where the server is.
const workerVariable = "PGLOCK_BENCH_WORKER"

func startWorker(ctx context.Context, connString string) (*worker, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	w := &worker{cmd: exec.CommandContext(ctx, program)}
	w.cmd.Env = append(os.Environ(), workerVariable+"="+connString)
	w.cmd.Stderr = os.Stderr
	if w.input, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	output, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	w.answers = bufio.NewScanner(output)
	return w, w.cmd.Start()
}

// call tells the worker what to do and waits for the answer.
func (w *worker) call(kind, what string) (time.Time, error) {
	got := <-w.start(kind, what)
	return got.at, got.err
}

func (w *worker) start(kind, what string) <-chan answer {
	answers := make(chan answer, 1)
	if _, err := fmt.Fprintln(w.input, kind, what); err != nil {
		answers <- answer{err: err}
		return answers
	}
	go func() { answers <- w.read() }()
	return answers
}

func (w *worker) read() answer {
	if !w.answers.Scan() {
		return answer{err: fmt.Errorf("the worker has ended: %w", w.answers.Err())}
	}
	at, err := strconv.ParseInt(w.answers.Text(), 10, 64)
	return answer{at: time.Unix(0, at), err: err}
}

func (w *worker) close() error { return errors.Join(w.input.Close(), w.cmd.Wait()) }

// What a worker can lock with.
const (
	ours  = "pglock"
	plain = "plain"
)

// work is the worker's side: it answers each command with the time in nanoseconds, which all processes of a machine
// read from the same clock.
func work(ctx context.Context, commands io.Reader, answers io.Writer) (err error) {
	pairs, closePairs, err := openPairs(ctx, os.Getenv(workerVariable))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closePairs()) }()
	lines := bufio.NewScanner(commands)
	for lines.Scan() {
		kind, what, _ := strings.Cut(lines.Text(), " ")
		at, err := pairs[kind].do(ctx, what)
		if err != nil {
			return fmt.Errorf("%s: %w", lines.Text(), err)
		}
		if _, err := fmt.Fprintln(answers, at.UnixNano()); err != nil {
			return err
		}
	}
	return lines.Err()
}

// pair locks and unlocks one key.
type pair struct {
	lock, unlock func(context.Context) error
}

func (p pair) do(ctx context.Context, what string) (time.Time, error) {
	if what == "lock" {
		err := p.lock(ctx)
		return time.Now(), err
	}
	begin := time.Now()
	return begin, p.unlock(ctx)
}
