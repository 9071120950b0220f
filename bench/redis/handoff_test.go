package redis_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/internal/testenv"
)

const (
	contenders = 8
	holdFor    = time.Millisecond
	restFor    = 5 * time.Millisecond // between an unlock and the next lock, so that who polls does not meet itself only
	contendFor = 3 * time.Second
)

// turn is one time that a process held the lock; times are of the machine's clock, which all processes share.
type turn struct {
	process      int
	locked, left int64 // nanoseconds; left is when the unlock began
}

// contend is a process of the benchmark: it waits for a line, locks and unlocks one key for a time, and prints its turns.
func contend(name, addr string) int {
	p := peers[name](complainer{}, addr)
	defer p.close()
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var turns []turn
	ctx, cancel := context.WithTimeout(context.Background(), contendFor)
	defer cancel()
	for ctx.Err() == nil {
		unlock, err := p.lock(ctx, "contended")
		if err != nil {
			break // the time is over
		}
		locked := time.Now().UnixNano()
		time.Sleep(holdFor)
		left := time.Now().UnixNano()
		if err := unlock(); err != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		turns = append(turns, turn{locked: locked, left: left})
		time.Sleep(restFor)
	}
	out := bufio.NewWriter(os.Stdout)
	for _, t := range turns {
		fmt.Fprintln(out, t.locked, t.left)
	}
	if err := out.Flush(); err != nil {
		return 1
	}
	return 0
}

// complainer stands in for a test in a process that is none.
type complainer struct{ testing.TB }

func (complainer) Error(args ...any) { fmt.Fprintln(os.Stderr, args...) }

func (complainer) Fatal(args ...any) {
	fmt.Fprintln(os.Stderr, args...)
	os.Exit(1)
}

// race lets processes contend and returns their turns in order.
func race(b *testing.B, name string) []turn {
	server := testenv.NewRedis(b)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	outputs := make([]bytes.Buffer, contenders)
	var starts []io.WriteCloser
	var commands []*exec.Cmd
	for i := range contenders {
		cmd := exec.CommandContext(ctx, os.Args[0])
		cmd.Env = append(os.Environ(), peerVariable+"="+name, addrVariable+"="+server.Addr(), "GOMAXPROCS=1")
		cmd.Stdout, cmd.Stderr = &outputs[i], os.Stderr
		start, err := cmd.StdinPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			b.Fatal(err)
		}
		starts, commands = append(starts, start), append(commands, cmd)
	}
	for _, start := range starts {
		_, _ = io.WriteString(start, "go\n") // one that has died is noticed below
	}
	var turns []turn
	for i, cmd := range commands {
		if err := cmd.Wait(); err != nil {
			b.Fatalf("%s: %v", name, err)
		}
		t := turn{process: i}
		for {
			if _, err := fmt.Fscan(&outputs[i], &t.locked, &t.left); err != nil {
				break
			}
			turns = append(turns, t)
		}
	}
	slices.SortFunc(turns, func(a, b turn) int { return int(a.locked - b.locked) })
	return turns
}

// judge returns the median and the 99th percentile of the time from a holder's unlock to the next holder's lock, where
// they are different processes, and how unevenly the processes were served: the most over the least.
func judge(turns []turn) (median, p99 time.Duration, unfair float64) {
	var gaps []int64
	served := make([]int, contenders)
	for i, t := range turns {
		served[t.process]++
		if i > 0 && turns[i-1].process != t.process {
			gaps = append(gaps, t.locked-turns[i-1].left)
		}
	}
	if len(gaps) == 0 {
		return 0, 0, 0
	}
	slices.Sort(gaps)
	at := func(percent int) time.Duration { return time.Duration(gaps[len(gaps)*percent/100]) }
	return at(50), at(99), float64(slices.Max(served)) / float64(max(1, slices.Min(served)))
}

// BenchmarkRedisHandoff lets eight processes contend for one key that each holds for a millisecond.
func BenchmarkRedisHandoff(b *testing.B) {
	for b.Loop() {
		ours := time.Duration(0)
		for _, name := range []string{"pglock", "rueidislock", "redsync", "bsm"} {
			turns := race(b, name)
			median, p99, unfair := judge(turns)
			if name == "pglock" {
				ours = p99
			}
			b.Logf("%-12s %6d turns, handoff median %9v, p99 %9v, most/least served %5.2f; ours/theirs p99 %.3f",
				name, len(turns), median.Round(time.Microsecond), p99.Round(time.Microsecond), unfair, float64(ours)/float64(p99))
			b.ReportMetric(float64(p99.Microseconds()), name+"-p99-µs")
			b.ReportMetric(unfair, name+"-most/least")
		}
	}
}
