package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/pglock-toolkit/pglock/bench/internal/contest"
	"github.com/pglock-toolkit/pglock/bench/internal/peer"
	"github.com/pglock-toolkit/pglock/bench/internal/report"
)

// handoff compares the time from the release in one process to the grant in another one that waits.
type handoff struct {
	ours, peer string
	most       float64
}

// handoffKey is the lock that two processes pass to each other.
const handoffKey = 11

func (h handoff) run(ctx context.Context, b *bench) (_ []report.Line, err error) {
	var contestants []contest.Contestant
	for _, name := range []string{h.ours, h.peer} {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel() // a worker that waits does not notice the end of its commands
		var between [2]*worker
		for i := range between {
			if between[i], err = startWorker(ctx, order{Peer: name, At: b.At}); err != nil {
				return nil, err
			}
			defer func() { err = errors.Join(err, between[i].close()) }()
		}
		contestants = append(contestants, contest.Contestant{
			Name:    name,
			Measure: func(ctx context.Context, d time.Duration) (float64, error) { return b.passAround(ctx, between, d) },
		})
	}
	all, err := contest.Run(ctx, b.plan, contestants...)
	if err != nil {
		return nil, err
	}
	line := report.Compare("between processes", report.Seconds, all[0], all[1])
	return []report.Line{line.Aim(report.AtMost, h.most)}, nil
}

// passAround passes the lock back and forth for d, and returns the median time.
func (b *bench) passAround(ctx context.Context, between [2]*worker, d time.Duration) (float64, error) {
	var times contest.Series
	for deadline := time.Now().Add(d); len(times) < 2 || time.Now().Before(deadline); {
		holder, waiter := between[len(times)%2], between[(len(times)+1)%2]
		if _, err := holder.call("lock"); err != nil {
			return 0, err
		}
		granted := waiter.start("lock")
		if err := b.awaitWaiter(ctx); err != nil {
			return 0, err
		}
		released, err := holder.call("unlock")
		if err != nil {
			return 0, err
		}
		got := <-granted
		if got.err != nil {
			return 0, got.err
		}
		if _, err := waiter.call("unlock"); err != nil {
			return 0, err
		}
		times = append(times, got.at.Sub(released).Seconds())
	}
	return times.Median(), nil
}

// awaitWaiter returns when a session waits in the server's queue.
func (b *bench) awaitWaiter(ctx context.Context) error {
	for {
		var waiting bool
		err := b.Pool.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)").
			Scan(&waiting)
		if err != nil || waiting {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no session waits for the lock: %w", context.Cause(ctx))
		case <-time.After(time.Millisecond):
		}
	}
}

// worker is this program in another process, which locks and unlocks on command.
type worker struct {
	cmd     *exec.Cmd
	input   io.WriteCloser
	answers *bufio.Scanner
}

// order is what a worker opens.
type order struct {
	Peer string
	At   peer.Addresses
}

// orderVariable makes a program a worker, and contains its order.
const orderVariable = "PGLOCK_BENCH_WORKER"

func isWorker() bool { return os.Getenv(orderVariable) != "" }

// startWorker starts a worker, which ends with ctx or with close.
func startWorker(ctx context.Context, o order) (*worker, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	w := &worker{cmd: exec.CommandContext(ctx, program)}
	w.cmd.Env = append(os.Environ(), orderVariable+"="+string(text))
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

func (w *worker) close() error { return errors.Join(w.input.Close(), w.cmd.Wait()) }

// answer is when a lock was granted, or when its release began.
type answer struct {
	at  time.Time
	err error
}

// call sends the worker a command and waits for the answer.
func (w *worker) call(command string) (time.Time, error) {
	got := <-w.start(command)
	return got.at, got.err
}

func (w *worker) start(command string) <-chan answer {
	answers := make(chan answer, 1)
	if _, err := fmt.Fprintln(w.input, command); err != nil {
		answers <- answer{err: err}
		return answers
	}
	go func() {
		if !w.answers.Scan() {
			answers <- answer{err: fmt.Errorf("the worker has ended: %w", w.answers.Err())}
			return
		}
		at, err := strconv.ParseInt(w.answers.Text(), 10, 64)
		answers <- answer{at: time.Unix(0, at), err: err}
	}()
	return answers
}

// work is the worker's side: it answers each command with the time in nanoseconds, which all processes of a machine
// read from the same clock.
func work(ctx context.Context, commands io.Reader, answers io.Writer) (err error) {
	var o order
	if err := json.Unmarshal([]byte(os.Getenv(orderVariable)), &o); err != nil {
		return err
	}
	p, err := peer.Open(ctx, o.Peer, o.At)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	var unlock func(context.Context) error
	for lines := bufio.NewScanner(commands); lines.Scan(); {
		at := time.Now()
		if lines.Text() == "lock" {
			unlock, err = p.Lock(ctx, 0, handoffKey)
			at = time.Now()
		} else {
			err = unlock(ctx)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", lines.Text(), err)
		}
		if _, err := fmt.Fprintln(answers, at.UnixNano()); err != nil {
			return err
		}
	}
	return nil
}
