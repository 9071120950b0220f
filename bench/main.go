// Command bench compares pglock with the alternatives: plain pgx with a connection for each lock, goose's locker, pgbench
// running the same statements, other locks on Redis. It starts temporary servers, and prints a table of figures and ratios
// that marks each target as reached or missed.
//
//	go run . [-only REGEXP] [-rounds N] [-slice DURATION] [-list] [-json]
//
// The contestants of a row take turns in short slices, in an order that changes from round to round, and a ratio is the
// median of the ratios of all rounds. The ratios hold for the machine on which they were measured: clients and servers
// share its cores.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/pglock-toolkit/pglock/bench/internal/contest"
	"github.com/pglock-toolkit/pglock/bench/internal/lab"
	"github.com/pglock-toolkit/pglock/bench/internal/report"
)

// bench is what a row measures with.
type bench struct {
	*lab.Lab
	plan contest.Plan
	size int // how many locks, records and waiters there are in the rows with many
}

// row is a part of the table that can be run alone. It may return lines with an error.
type row struct {
	name, what string
	run        func(context.Context, *bench) ([]report.Line, error)
}

func main() {
	if isWorker() {
		exitOn(work(context.Background()))
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	exitOn(run(ctx, os.Args[1:]))
}

func exitOn(err error) {
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (err error) {
	set := flag.NewFlagSet("bench", flag.ContinueOnError)
	list := set.Bool("list", false, "list the rows and do nothing")
	asJSON := set.Bool("json", false, "print JSON instead of a table")
	plan, only, err := contest.Parse(set, args)
	if err != nil {
		return err
	}
	selected := slices.DeleteFunc(slices.Clone(rows), func(r row) bool { return !only.MatchString(r.name) })
	if len(selected) == 0 {
		return fmt.Errorf("-only %s: no row has such a name; -list shows them", only)
	}
	if *list {
		for _, r := range selected {
			fmt.Printf("%-14s %s\n", r.name, r.what)
		}
		return nil
	}
	servers, err := lab.Open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, servers.Close()) }()
	b := &bench{Lab: servers, plan: plan, size: 10_000}
	if *asJSON {
		lines, err := b.measure(ctx, selected, func(report.Line) {})
		return errors.Join(err, report.WriteJSON(os.Stdout, b.about(), lines))
	}
	about := b.about()
	for _, name := range slices.Sorted(maps.Keys(about)) {
		fmt.Printf("%-14s %s\n", name, about[name])
	}
	fmt.Printf("\n%s\n", report.Head())
	lines, err := b.measure(ctx, selected, func(line report.Line) { fmt.Println(line) })
	printSummary(lines)
	return err
}

func (b *bench) about() map[string]string {
	about := b.Lab.About()
	about["rounds"] = fmt.Sprintf("%d of %v, medians and quartiles", b.plan.Rounds, b.plan.Slice)
	return about
}

// measure continues after a row that fails.
func (b *bench) measure(ctx context.Context, selected []row, show func(report.Line)) (all []report.Line, err error) {
	for _, r := range selected {
		_, _ = fmt.Fprintf(os.Stderr, "· %s: %s\n", r.name, r.what) // only for information
		lines, rowErr := r.run(ctx, b)
		if rowErr != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", r.name, rowErr))
		}
		for i := range lines {
			lines[i].Row = r.name
			show(lines[i])
		}
		all = append(all, lines...)
		if ctx.Err() != nil {
			return all, errors.Join(err, context.Cause(ctx))
		}
	}
	return all, err
}

func printSummary(lines []report.Line) {
	targets := 0
	var missed []string
	for _, line := range lines {
		if line.Target != nil {
			targets++
			if !line.Target.Reached {
				missed = append(missed, line.Row+": "+strings.TrimSpace(line.What))
			}
		}
	}
	fmt.Printf("\n%d of %d targets reached\n", targets-len(missed), targets)
	for _, miss := range missed {
		fmt.Println("  missed  " + miss)
	}
}
