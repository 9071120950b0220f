// Command matrix runs the conformance suites on servers and poolers of many versions, each in a container, and prints a
// table:
//
//	go run . -only '^PostgreSQL'
//
// The images are made on the spot from Debian's packages, with mmdebstrap, and kept until the script or the packages change.
// Nothing is pulled. If Docker's engine does not run, it is started for the time; where that is not possible, the command
// says why, and what it has skipped.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"
)

func main() {
	only := flag.String("only", "", "a regular expression of the systems to run")
	page := flag.String("write", "", "a page with a table, whose rows of these systems are replaced")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *only, *page); err != nil {
		fmt.Fprintln(os.Stderr, "matrix:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, only, page string) (err error) {
	chosen, err := choose(only)
	if err != nil {
		return err
	}
	engine, err := findEngine(ctx)
	if err != nil {
		fmt.Printf("matrix: %v; skipped: %d systems\n", err, len(chosen))
		return nil
	}
	defer func() { err = errors.Join(err, engine.end()) }()
	var results []result
	for _, s := range chosen {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		tried := engine.try(ctx, s)
		results = append(results, tried...)
		if page != "" {
			if err := write(page, tried); err != nil {
				return err
			}
		}
	}
	fmt.Print("\n", table(results))
	return failures(results)
}

func choose(only string) (chosen []system, err error) {
	names, err := regexp.Compile(only)
	if err != nil {
		return nil, err
	}
	for _, s := range systems {
		if names.MatchString(s.name) {
			chosen = append(chosen, s)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("there is no system like %q", only)
	}
	return chosen, nil
}

// result is that of a suite on a system. Without a suite the system is not available.
type result struct {
	system  system
	version string // of the package, as found in the container
	suite   string
	passed  int // tests
	err     error
	when    time.Time
	took    time.Duration
}

// failures is not nil if a suite has failed. A system that is not available is a row of the table.
func failures(results []result) (err error) {
	for _, r := range results {
		if r.suite != "" && r.err != nil {
			err = errors.Join(err, fmt.Errorf("%s, %s: %w", r.system.name, r.suite, r.err))
		}
	}
	return err
}
