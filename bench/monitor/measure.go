package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/monitordb"
	"github.com/pglock-toolkit/pglock/internal/pgserver"
	"github.com/pglock-toolkit/pglock/monitor"
)

// figures are the costs of a snapshot of a scene.
type figures struct {
	locks, blockers time.Duration // of the server, by statement, from EXPLAIN ANALYZE
	statements      time.Duration // both
	backend         time.Duration // processor time of the monitor's backend for a Take
	client          time.Duration // until Take returns
	bytes           int64         // that the client receives
	allocated       uint64        // by the client, in bytes
}

func (f figures) print(s scene) {
	fmt.Printf("%s: %s\n", s.name, s.what)
	target := ""
	if s.target > 0 {
		verdict := "reached"
		if f.backend > s.target {
			verdict = "missed"
		}
		target = fmt.Sprintf("  target ≤ %v: %s", s.target, verdict)
	}
	fmt.Printf("  server, both statements   %10s\n", milliseconds(f.statements))
	fmt.Printf("    locks, sessions         %10s\n", milliseconds(f.locks))
	fmt.Printf("    blockers of waiters     %10s\n", milliseconds(f.blockers))
	fmt.Printf("  backend's processor time  %10s%s\n", milliseconds(f.backend), target)
	fmt.Printf("  client, the whole Take    %10s\n", milliseconds(f.client))
	fmt.Printf("  received                  %7.0f kB\n", float64(f.bytes)/1000)
	fmt.Printf("  allocated by the client   %7.0f kB\n\n", float64(f.allocated)/1000)
}

func milliseconds(d time.Duration) string { return fmt.Sprintf("%.1f ms", d.Seconds()*1000) }

func (s scene) measure(ctx context.Context, server *pgserver.Server, rounds int) (f figures, err error) {
	h, err := s.setUp(ctx, server)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	w, err := newWatcher(ctx, server.ConnString(pgserver.Superuser))
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, w.conn.Close(ctx)) }()
	watching := monitor.RememberNames()
	if _, err := w.take(ctx, s, watching); err != nil { // prepares the statements
		return f, err
	}
	var all []figures
	for range rounds {
		if s.once {
			watching = monitor.RememberNames()
		}
		one, err := w.take(ctx, s, watching)
		if err != nil {
			return f, err
		}
		if one.locks, err = w.explain(ctx, monitordb.Locks, []int32{}, false, 10); err != nil {
			return f, err
		}
		if one.blockers, err = w.explain(ctx, monitordb.Blockers, []int32{}, false); err != nil {
			return f, err
		}
		one.statements = one.locks + one.blockers
		all = append(all, one)
	}
	return medians(all), nil
}

// watcher is the connection of the monitor.
type watcher struct {
	conn     *pgx.Conn
	received *atomic.Int64
}

func newWatcher(ctx context.Context, connString string) (watcher, error) {
	w := watcher{received: &atomic.Int64{}}
	config, err := pgx.ParseConfig(connString)
	if err != nil {
		return w, err
	}
	dial := config.DialFunc
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		return counted{conn, w.received}, err
	}
	w.conn, err = pgx.ConnectConfig(ctx, config)
	return w, err
}

// counted counts the bytes that are read.
type counted struct {
	net.Conn
	read *atomic.Int64
}

func (c counted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.read.Add(int64(n))
	return n, err
}

func (w watcher) take(ctx context.Context, s scene, options ...monitor.Option) (f figures, err error) {
	before, err := processorTime(w.conn.PgConn().PID())
	if err != nil {
		return f, err
	}
	var memory [2]runtime.MemStats
	runtime.ReadMemStats(&memory[0])
	received, start := w.received.Load(), time.Now()
	snapshot, err := monitor.Take(ctx, w.conn, options...)
	if err != nil {
		return f, err
	}
	f.client, f.bytes = time.Since(start), w.received.Load()-received
	runtime.ReadMemStats(&memory[1])
	f.allocated = memory[1].TotalAlloc - memory[0].TotalAlloc
	if len(snapshot.Locks) != s.locks || snapshot.BlockersMissing != "" || s.named && snapshot.Locks[0].Names == nil {
		return f, fmt.Errorf("the snapshot has %d locks, want %d; blockers: %q", len(snapshot.Locks), s.locks,
			snapshot.BlockersMissing)
	}
	after, err := processorTime(w.conn.PgConn().PID())
	f.backend = after - before
	return f, err
}

// processorTime is the processor time of a process, from Linux.
func processorTime(pid uint32) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid))
	if err != nil {
		return 0, err
	}
	running, _, _ := strings.Cut(string(text), " ")
	nanoseconds, err := strconv.ParseInt(running, 10, 64)
	return time.Duration(nanoseconds), err
}

// explain runs a statement and returns the server's time for planning and execution.
func (w watcher) explain(ctx context.Context, statement string, args ...any) (total time.Duration, err error) {
	rows, err := w.conn.Query(ctx, "EXPLAIN (ANALYZE, TIMING OFF, SUMMARY ON) "+statement,
		append([]any{pgx.QueryExecModeSimpleProtocol}, args...)...)
	if err != nil {
		return 0, err
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return 0, err
	}
	for _, line := range lines {
		var milliseconds float64
		for _, prefix := range []string{"Planning Time: ", "Execution Time: "} {
			if _, err := fmt.Sscanf(line, prefix+"%f ms", &milliseconds); err == nil {
				total += time.Duration(milliseconds * float64(time.Millisecond))
			}
		}
	}
	if total == 0 {
		return 0, fmt.Errorf("EXPLAIN gives no time: %q", lines)
	}
	return total, nil
}

// medians returns the median of each figure.
func medians(all []figures) figures {
	return figures{
		locks:      median(all, func(f figures) time.Duration { return f.locks }),
		blockers:   median(all, func(f figures) time.Duration { return f.blockers }),
		statements: median(all, func(f figures) time.Duration { return f.statements }),
		backend:    median(all, func(f figures) time.Duration { return f.backend }),
		client:     median(all, func(f figures) time.Duration { return f.client }),
		bytes:      median(all, func(f figures) int64 { return f.bytes }),
		allocated:  median(all, func(f figures) uint64 { return f.allocated }),
	}
}

func median[T time.Duration | int64 | uint64](all []figures, of func(figures) T) T {
	values := make([]T, len(all))
	for i, f := range all {
		values[i] = of(f)
	}
	slices.Sort(values)
	return values[len(values)/2]
}
