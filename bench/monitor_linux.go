package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/creack/pty"

	"github.com/pglock-toolkit/pglock/bench/internal/contest"
	"github.com/pglock-toolkit/pglock/bench/internal/report"
)

func init() {
	rows = append(rows, row{"monitor", "looking at 10,000 locks and 500 sessions each second", monitoring})
}

// monitoring measures what the command pglock costs that looks at a busy server once a second: processor time, which depends less
// on other load than the time that passes.
func monitoring(ctx context.Context, b *bench) (lines []report.Line, err error) {
	directory, err := os.MkdirTemp("", "pglock-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(directory)) }()
	c := command{b, filepath.Join(directory, "pglock")}
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", c.path, "../cmd/pglock")
	build.Env, build.Stderr = append(os.Environ(), "CGO_ENABLED=0"), os.Stderr
	if err := build.Run(); err != nil {
		return nil, err
	}
	binary, err := os.Stat(c.path)
	if err != nil {
		return nil, err
	}
	leave, err := b.fill(ctx, b.size, min(waiters, b.size))
	defer func() { err = errors.Join(err, leave()) }()
	if err != nil {
		return nil, err
	}
	for _, m := range []struct {
		what   string
		target float64
		args   []string
		client func(context.Context, io.Reader) (looked int)
	}{
		{"view", 0.10, []string{"monitor", "--read-only"}, watchTerminal},
		{"page", 0.10, []string{"serve", "--listen", "127.0.0.1:0"}, visit("/api/now", time.Second)},
		{"exporter", 0.08, []string{"serve", "--listen", "127.0.0.1:0"}, visit("/metrics", 5*time.Second)},
	} {
		own, backend, err := c.cost(ctx, m.client, m.args...)
		if err != nil {
			return lines, fmt.Errorf("%s: %w", m.what, err)
		}
		lines = append(lines, report.Alone(m.what+", each second", report.Seconds, contest.Series{own}).Aim(report.AtMost, m.target),
			report.Alone("  the server's", report.Seconds, contest.Series{backend}).Aim(report.AtMost, 0.08))
	}
	once, err := c.once(ctx)
	return append(lines, report.Alone("--once, in all", report.Seconds, once).Aim(report.AtMost, 0.5),
		report.Alone("bytes of the binary", report.Count, contest.Series{float64(binary.Size())}).Aim(report.AtMost, 25_000_000)), err
}

// command is the command pglock.
type command struct {
	*bench
	path string
}

// cost returns the processor time that the command and its sessions use in a second, while client looks at it.
func (c command) cost(ctx context.Context, client func(context.Context, io.Reader) int, args ...string) (own, backend float64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.path, append(args, "-d", c.At.Postgres)...)
	cmd.Env = append(os.Environ(), "TERM=xterm-256color")
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 50, Cols: 160})
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = terminal.Close() }()     // nothing is lost with it
	defer func() { cancel(); _ = cmd.Wait() }() // it was killed
	looked := make(chan int, 1)
	go func() { looked <- client(ctx, terminal) }()
	time.Sleep(10 * c.plan.Slice) // it has begun
	var spent [2][2]time.Duration
	for i := range spent {
		if i > 0 {
			time.Sleep(40 * c.plan.Slice)
		}
		if spent[i][0], _, err = processorTime(cmd.Process.Pid); err != nil {
			return 0, 0, err
		}
		if spent[i][1], err = c.sessions(ctx); err != nil {
			return 0, 0, err
		}
	}
	cancel()
	if <-looked == 0 {
		return 0, 0, errors.New("it showed nothing")
	}
	passed := (40 * c.plan.Slice).Seconds()
	return (spent[1][0] - spent[0][0]).Seconds() / passed, (spent[1][1] - spent[0][1]).Seconds() / passed, nil
}

// sessions returns the processor time of the command's sessions.
func (c command) sessions(ctx context.Context) (spent time.Duration, err error) {
	var pids []int
	const query = "SELECT array_agg(pid) FROM pg_stat_activity WHERE starts_with(application_name, 'pglock ')"
	if err := c.Pool.QueryRow(ctx, query).Scan(&pids); err != nil {
		return 0, err
	}
	for _, pid := range pids {
		one, _, err := processorTime(pid)
		if err != nil {
			return 0, err
		}
		spent += one
	}
	return spent, nil
}

// once returns the processor time of looking once, that of the session included.
func (c command) once(ctx context.Context) (spent contest.Series, err error) {
	var server int
	if err := c.Pool.QueryRow(ctx, "SELECT split_part(pg_read_file('postmaster.pid'), E'\n', 1)::int").Scan(&server); err != nil {
		return nil, err
	}
	for range c.plan.Rounds {
		_, before, err := processorTime(server)
		if err != nil {
			return nil, err
		}
		cmd := exec.CommandContext(ctx, c.path, "monitor", "--once", "-d", c.At.Postgres)
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%w: %s", err, out)
		}
		time.Sleep(200 * time.Millisecond) // the server has seen that its session has ended
		_, after, err := processorTime(server)
		if err != nil {
			return nil, err
		}
		spent = append(spent, (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime() + after - before).Seconds())
	}
	return spent, nil
}

// processorTime is the processor time of a process, and that of its children that have ended, from Linux.
func processorTime(pid int) (own, children time.Duration, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, err
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	var ticks [4]time.Duration // in user mode and in the kernel; see proc(5)
	for i := range ticks {
		n, err := strconv.ParseInt(fields[11+i], 10, 64)
		if err != nil {
			return 0, 0, err
		}
		ticks[i] = time.Duration(n) * time.Second / 100
	}
	return ticks[0] + ticks[1], ticks[2] + ticks[3], nil
}

func watchTerminal(_ context.Context, printed io.Reader) (looked int) {
	n, _ := io.Copy(io.Discard, printed) // the terminal ends with the command
	return int(n)
}

// visit returns a function that opens the URL that the command prints, and then asks for a path again and again, as the page and
// Prometheus do. It returns how often that was answered.
func visit(path string, every time.Duration) func(context.Context, io.Reader) int {
	return func(ctx context.Context, printed io.Reader) (looked int) {
		lines := bufio.NewScanner(printed)
		for lines.Scan() && !strings.Contains(lines.Text(), ": open ") {
		}
		_, page, _ := strings.Cut(lines.Text(), ": open ")
		request, _ := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSpace(page), nil) // a URL of ours
		answer, err := http.DefaultTransport.RoundTrip(request)
		if err != nil {
			return 0
		}
		_, secret, _ := strings.Cut(answer.Header.Get("Location"), "secret=")
		cookies := answer.Cookies()
		for ctx.Err() == nil {
			_ = answer.Body.Close() // it only ends the connection
			request, _ = http.NewRequestWithContext(ctx, http.MethodGet, "http://"+request.URL.Host+path, nil)
			request.Header.Set("Pglock-Secret", secret)
			for _, cookie := range cookies {
				request.AddCookie(cookie)
			}
			if answer, err = http.DefaultTransport.RoundTrip(request); err != nil {
				return looked
			}
			if _, err = io.Copy(io.Discard, answer.Body); err == nil && answer.StatusCode == http.StatusOK {
				looked++
			}
			time.Sleep(every)
		}
		return looked
	}
}
