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
	"strings"
	"syscall"
	"time"
)

func main() {
	only := flag.String("only", "", "a regular expression of the systems to run")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *only); err != nil {
		fmt.Fprintln(os.Stderr, "matrix:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, only string) (err error) {
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
		results = append(results, s.try(ctx)...)
	}
	return report(results)
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
	took    time.Duration
}

// report prints a row for each suite. Its error is that of suites that failed; a system that is not available is none.
func report(results []result) (err error) {
	fmt.Println("\n| server | version | suite | result | took |\n|---|---|---|---|--:|")
	for _, r := range results {
		outcome := fmt.Sprintf("passed (%d tests)", r.passed)
		switch {
		case r.suite == "":
			outcome = "not available: " + strings.ReplaceAll(r.err.Error(), "\n", " ")
		case r.err != nil:
			outcome = "failed"
			err = errors.Join(err, fmt.Errorf("%s, %s: %w", r.system.name, r.suite, r.err))
		}
		fmt.Printf("| %s | %s | %s | %s | %v |\n", r.system.name, r.version, r.suite, outcome, r.took.Round(time.Second))
	}
	return err
}
