package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pglock-toolkit/pglock/bench/internal/redispeer"
	"github.com/pglock-toolkit/pglock/bench/internal/worker"
)

// contender is another process that contends on command.
type contender struct {
	*worker.Process
	answers *bufio.Reader
}

// order is the order of a worker.
type order struct {
	peer, addr string
	how        strategy
	counter    string // a file that counts the turns of all
}

func startContender(ctx context.Context, o order) (*contender, error) {
	said := strings.Join([]string{o.peer, o.addr, string(o.how), o.counter}, "|")
	process, err := worker.Start(ctx, said, "GOMAXPROCS=1")
	if err != nil {
		return nil, err
	}
	return &contender{process, bufio.NewReader(process.Output)}, nil
}

// contend makes the worker contend for a time, and returns its turns.
func (w *contender) contend(process int, d time.Duration) (turns []turn, err error) {
	if _, err := fmt.Fprintln(w.Input, int64(d)); err != nil {
		return nil, err
	}
	for {
		t := turn{process: process}
		if _, err := fmt.Fscanln(w.answers, &t.locked, &t.left); err != nil {
			return nil, fmt.Errorf("a worker sent something other than its turns: %w", err)
		}
		if t.locked == 0 { // the last one
			return turns, nil
		}
		turns = append(turns, t)
	}
}

// work is the worker's side: it reads how long to contend, and answers with its turns.
func work(commands io.Reader, answers io.Writer) (err error) {
	said := strings.Split(worker.Order(), "|")
	if len(said) != 4 || redispeer.Open[said[0]] == nil {
		return fmt.Errorf("unknown order %q", worker.Order())
	}
	o := order{said[0], said[1], strategy(said[2]), said[3]}
	turns, err := openCounter(o.counter)
	if err != nil {
		return err
	}
	p, err := redispeer.Open[o.peer](o.addr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	out := bufio.NewWriter(answers)
	for {
		var d int64
		if _, err := fmt.Fscanln(commands, &d); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		mine, err := contend(p, time.Duration(d), o.how, turns)
		if err != nil {
			return err
		}
		for _, t := range append(mine, turn{}) {
			_, _ = fmt.Fprintln(out, t.locked, t.left) // an error is kept, and returned by Flush
		}
		if err := out.Flush(); err != nil {
			return err
		}
	}
}

// contend locks and unlocks one key for a time.
func contend(p *redispeer.Peer, d time.Duration, how strategy, all *atomic.Uint64) (turns []turn, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	for ctx.Err() == nil {
		unlock, err := p.Lock(ctx, "contended")
		if err != nil {
			break // the time is over
		}
		locked, number := time.Now().UnixNano(), all.Add(1)
		time.Sleep(holdFor)
		left := time.Now().UnixNano()
		if err := unlock(); err != nil && ctx.Err() == nil {
			return nil, err
		}
		turns = append(turns, turn{locked: locked, left: left})
		for how == yielding && all.Load() == number && ctx.Err() == nil {
			time.Sleep(100 * time.Microsecond)
		}
	}
	return turns, nil
}
