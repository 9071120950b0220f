package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/pglock-toolkit/pglock/bench/internal/contest"
	"github.com/pglock-toolkit/pglock/bench/internal/report"
	"github.com/pglock-toolkit/pglock/bench/internal/worker"
)

// handoffKey is the lock that two processes pass to each other.
const handoffKey = 11

// handoff compares the time from the release in one process to the grant in a waiting one with that of two plain
// connections.
func handoff(ctx context.Context, l *lab) ([]report.Line, error) {
	return l.betweenProcesses(ctx, ours, "process A to process B", 1.15)
}

// takeover compares the time from a leader's resignation to the election of the next one, in another process, with the
// handoff between two plain connections.
func takeover(ctx context.Context, l *lab) ([]report.Line, error) {
	return l.betweenProcesses(ctx, elected, "from Resign to the next leader", 3)
}

// betweenProcesses compares a kind of lock with two plain connections. The same two processes do both.
func (l *lab) betweenProcesses(ctx context.Context, kind, what string, target float64) (_ []report.Line, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var workers [2]*contender
	for i := range workers {
		if workers[i], err = startContender(ctx, l.connString()); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, workers[i].Close()) }()
	}
	defer func() {
		if err != nil {
			cancel() // a waiting worker does not notice the end of its commands
		}
	}()
	relay := func(kind string) func(context.Context, time.Duration) (float64, error) {
		return func(ctx context.Context, d time.Duration) (float64, error) {
			return l.passAround(ctx, kind, workers, d)
		}
	}
	series, err := contest.Run(ctx, l.plan,
		contest.Contestant{Name: "pglock", Measure: relay(kind)},
		contest.Contestant{Name: "plain", Measure: relay(plain)})
	if err != nil {
		return nil, err
	}
	return []report.Line{compared(what, report.Seconds, series[0], series[1]).Aim(report.AtMost, target)}, nil
}

// passAround passes the lock back and forth for d, and returns the median time.
func (l *lab) passAround(ctx context.Context, kind string, workers [2]*contender, d time.Duration) (float64, error) {
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
func (l *lab) passOn(ctx context.Context, kind string, holder, waiter *contender) (time.Duration, error) {
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

// awaitWaiter returns when a session waits in the server's queue.
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
			return fmt.Errorf("no session waits for the lock: %w", context.Cause(ctx))
		case <-time.After(time.Millisecond):
		}
	}
}

// contender is another process, which locks and unlocks on command.
type contender struct {
	*worker.Process
	answers *bufio.Scanner
}

// answer is when a lock was granted, or when its release began.
type answer struct {
	at  time.Time
	err error
}

func startContender(ctx context.Context, connString string) (*contender, error) {
	process, err := worker.Start(ctx, connString)
	if err != nil {
		return nil, err
	}
	return &contender{process, bufio.NewScanner(process.Output)}, nil
}

// call sends the worker a command and waits for the answer.
func (w *contender) call(kind, what string) (time.Time, error) {
	got := <-w.start(kind, what)
	return got.at, got.err
}

func (w *contender) start(kind, what string) <-chan answer {
	answers := make(chan answer, 1)
	if _, err := fmt.Fprintln(w.Input, kind, what); err != nil {
		answers <- answer{err: err}
		return answers
	}
	go func() { answers <- w.read() }()
	return answers
}

func (w *contender) read() answer {
	if !w.answers.Scan() {
		return answer{err: fmt.Errorf("the worker has ended: %w", w.answers.Err())}
	}
	at, err := strconv.ParseInt(w.answers.Text(), 10, 64)
	return answer{at: time.Unix(0, at), err: err}
}

// The ways in which a worker can lock.
const (
	ours    = "pglock"
	elected = "leader"
	plain   = "plain"
)

// work is the worker's side: it answers each command with the time in nanoseconds, which all processes of a machine
// read from the same clock.
func work(ctx context.Context, commands io.Reader, answers io.Writer) (err error) {
	pairs, closePairs, err := openPairs(ctx, worker.Order())
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
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if what == "lock" {
		err := p.lock(ctx)
		return time.Now(), err
	}
	begin := time.Now()
	return begin, p.unlock(ctx)
}
