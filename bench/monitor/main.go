// Command monitor measures the cost of a snapshot of package monitor on a busy server: 500 sessions with 10,000 and
// with 100,000 advisory locks, and 200 waiters. It starts a temporary server.
//
//	go run ./monitor [-rounds N] [-only REGEXP]
//
// For each server it prints how long the statements took according to PostgreSQL (EXPLAIN ANALYZE: planning and
// execution), the processor time of the monitor's backend for a whole Take, and the cost to the client: time, bytes,
// and memory. All figures are medians.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"syscall"
	"time"

	"github.com/pglock-toolkit/pglock/internal/pgserver"
)

func main() {
	rounds := flag.Int("rounds", 15, "number of measurements for each figure")
	only := flag.String("only", "", "measure the servers whose name matches this `regexp`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *rounds, *only); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// settings are the server's settings; the others are PostgreSQL's defaults.
var settings = map[string]string{
	"max_connections":           "600",
	"max_locks_per_transaction": "512",
	"autovacuum":                "off",
}

func run(ctx context.Context, rounds int, only string) (err error) {
	matching, err := regexp.Compile(only)
	if err != nil || rounds < 1 || flag.NArg() > 0 {
		return errors.Join(err, errors.New("want -rounds above 0, a regular expression for -only, and no arguments"))
	}
	server, err := pgserver.Start(ctx, pgserver.Options{Settings: settings})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	fmt.Printf("PostgreSQL %s, %s, %d cores, medians of %d\n\n",
		server.Binaries().Version, runtime.Version(), runtime.NumCPU(), rounds)
	missed := 0
	for _, s := range scenes {
		if !matching.MatchString(s.name) {
			continue
		}
		figures, err := s.measure(ctx, server, rounds)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		figures.print(s)
		if s.target > 0 && figures.backend > s.target {
			missed++
		}
	}
	if missed > 0 {
		fmt.Printf("%d targets missed\n", missed)
	}
	return nil
}

// scenes are the servers to measure. The target is for the processor time of the monitor's backend, which depends less
// on other load than the times of EXPLAIN.
var scenes = []scene{
	{name: "idle", what: "no locks are held"},
	{name: "busy", what: "10,000 locks of 500 sessions, 200 waiters",
		locks: 10_000, sessions: 500, waiters: 200, target: 50 * time.Millisecond},
	{name: "named", what: "the same, each lock with a registered name, as a program sees it that watches the server",
		locks: 10_000, sessions: 500, waiters: 200, named: true, target: 50 * time.Millisecond},
	{name: "named-once", what: "the same, by snapshots that do not know the names yet",
		locks: 10_000, sessions: 500, waiters: 200, named: true, once: true},
	{name: "huge", what: "100,000 locks of 500 sessions, 200 waiters", locks: 100_000, sessions: 500, waiters: 200},
}
