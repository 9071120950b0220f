package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/rpc"
	"os"
	"os/exec"
	"time"

	"github.com/pglock-toolkit/pglock/bench/internal/contest"
	"github.com/pglock-toolkit/pglock/bench/internal/peer"
	"github.com/pglock-toolkit/pglock/bench/internal/report"
)

// handoff measures how long it takes from the call that unlocks in one process until the call that waits in another returns.
type handoff struct {
	ours, peer string
	most       float64 // ratio
}

const handoffKey = 11

func (h handoff) run(ctx context.Context, b *bench) (_ []report.Line, err error) {
	var contestants []contest.Contestant
	for _, name := range []string{h.ours, h.peer} {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel() // a worker that waits does not notice the end of its calls
		var between [2]*rpc.Client
		for i := range between {
			if between[i], err = startWorker(ctx, order{Peer: name, At: b.At}); err != nil {
				return nil, err
			}
			defer func() { err = errors.Join(err, between[i].Close()) }()
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

// passAround returns the median of many handoffs, in seconds.
func (b *bench) passAround(ctx context.Context, between [2]*rpc.Client, d time.Duration) (float64, error) {
	var times contest.Series
	for deadline := time.Now().Add(d); len(times) < 2 || time.Now().Before(deadline); {
		holder, waiter := between[len(times)%2], between[(len(times)+1)%2]
		var released, granted time.Time
		if err := holder.Call(lockCall, "", &granted); err != nil {
			return 0, err
		}
		waits := waiter.Go(lockCall, "", &granted, nil)
		if err := b.awaitWaiter(ctx); err != nil {
			return 0, err
		}
		err := holder.Call(unlockCall, "", &released)
		if err = errors.Join(err, (<-waits.Done).Error); err != nil {
			return 0, err
		}
		times = append(times, granted.Sub(released).Seconds())
		if err := waiter.Call(unlockCall, "", &released); err != nil {
			return 0, err
		}
	}
	return times.Median(), nil
}

// awaitWaiter returns when a session waits for an advisory lock.
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

// order says which lock a worker opens. It is in the environment of the worker, which is this program again.
type order struct {
	Peer string
	At   peer.Addresses
}

const orderVariable = "PGLOCK_BENCH_WORKER"

func isWorker() bool { return os.Getenv(orderVariable) != "" }

// startWorker returns a client of a worker, which listens to its standard input until that ends.
func startWorker(ctx context.Context, o order) (*rpc.Client, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, program)
	cmd.Env, cmd.Stderr = append(os.Environ(), orderVariable+"="+string(text)), os.Stderr
	input, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	closing := func() error { return errors.Join(input.Close(), cmd.Wait()) }
	return rpc.NewClient(pipes{output, input, closing}), cmd.Start()
}

type pipes struct {
	io.Reader
	io.Writer
	closing func() error
}

func (p pipes) Close() error { return p.closing() }

// Worker takes one lock and gives it back, and says when.
type Worker struct {
	peer   *peer.Peer
	unlock func(context.Context) error
}

const lockCall, unlockCall = "Worker.Lock", "Worker.Unlock"

// Lock returns when the lock was granted.
func (w *Worker) Lock(_ string, granted *time.Time) (err error) {
	w.unlock, err = w.peer.Lock(context.Background(), 0, handoffKey)
	*granted = time.Now()
	return err
}

// Unlock returns when the call began.
func (w *Worker) Unlock(_ string, began *time.Time) error {
	*began = time.Now()
	return w.unlock(context.Background())
}

func work(ctx context.Context) (err error) {
	var o order
	if err := json.Unmarshal([]byte(os.Getenv(orderVariable)), &o); err != nil {
		return err
	}
	p, err := peer.Open(ctx, o.Peer, o.At)
	if err != nil {
		return err
	}
	server := rpc.NewServer()
	if err := server.Register(&Worker{peer: p}); err != nil {
		return errors.Join(err, p.Close())
	}
	server.ServeConn(pipes{os.Stdin, os.Stdout, os.Stdout.Close})
	return p.Close()
}
