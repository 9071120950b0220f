// Command postgres measures pglock on PostgreSQL beside what else one would use: plain pgx with a connection for each
// lock, goose's session locker, and pgbench running the same statements, which shows what the server itself can do. It
// starts a throw-away server for that, and prints a table of figures and ratios in which every target is marked as
// reached or not.
//
//	go run ./postgres [-only REGEXP] [-rounds N] [-slice DURATION] [-cpu] [-json] [-cpuprofile FILE]
//
// The contestants of a row take turns in short slices, in an order that changes from round to round, and a ratio is the
// median of those of the single rounds. What is compared holds on the machine it was measured on: clients and server
// share its cores.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"runtime/pprof"
	"strings"
	"syscall"
	"time"

	"github.com/pglock-toolkit/pglock/bench/internal/contest"
	"github.com/pglock-toolkit/pglock/bench/internal/report"
)

type flags struct {
	plan       contest.Plan
	only       *regexp.Regexp
	list, json bool
	showCPU    bool
	cpuProfile string
	memProfile string
	limit      time.Duration
}

func main() {
	if os.Getenv(workerVariable) != "" {
		exitOn(work(context.Background(), os.Stdin, os.Stdout))
		return
	}
	f, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	exitOn(err)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, f.limit, fmt.Errorf("not finished after %v (-timeout)", f.limit))
	defer cancel()
	exitOn(profiled(f, func() error { return run(ctx, f) }))
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parse(args []string) (flags, error) {
	f := flags{}
	set := flag.NewFlagSet("postgres", flag.ContinueOnError)
	set.IntVar(&f.plan.Rounds, "rounds", 7, "slices that each contestant of a row gets")
	set.DurationVar(&f.plan.Slice, "slice", 500*time.Millisecond, "how long a slice takes")
	set.BoolVar(&f.list, "list", false, "list the rows and do nothing")
	set.BoolVar(&f.json, "json", false, "print JSON instead of a table")
	set.BoolVar(&f.showCPU, "cpu", false, "show the processor time of a pair too, which other load disturbs less")
	set.StringVar(&f.cpuProfile, "cpuprofile", "",
		"write a CPU profile to this `file`; its label contestant tells whose time it is")
	set.StringVar(&f.memProfile, "memprofile", "", "write a profile of all allocations to this `file`")
	set.DurationVar(&f.limit, "timeout", 20*time.Minute, "give up after this time")
	only := set.String("only", "", "run the rows whose name matches this `regexp`")
	if err := set.Parse(args); err != nil {
		return f, err
	}
	if set.NArg() > 0 || f.plan.Rounds < 1 || f.plan.Slice <= 0 || f.limit <= 0 {
		return f, errors.New("no arguments are taken, and -rounds, -slice and -timeout are positive; see -help")
	}
	var err error
	if f.only, err = regexp.Compile(*only); err != nil {
		return f, fmt.Errorf("-only: %w", err)
	}
	return f, nil
}

// profiled runs do with the profiles that were asked for.
func profiled(f flags, do func() error) (err error) {
	if f.cpuProfile != "" {
		file, err := os.Create(f.cpuProfile)
		if err != nil {
			return err
		}
		if err := pprof.StartCPUProfile(file); err != nil {
			return errors.Join(err, file.Close())
		}
		defer func() {
			pprof.StopCPUProfile()
			err = errors.Join(err, file.Close())
		}()
	}
	if err := do(); err != nil {
		return err
	}
	if f.memProfile == "" {
		return nil
	}
	file, err := os.Create(f.memProfile)
	if err != nil {
		return err
	}
	return errors.Join(pprof.Lookup("allocs").WriteTo(file, 0), file.Close())
}

func run(ctx context.Context, f flags) (err error) {
	selected := selectRows(f.only)
	if len(selected) == 0 {
		return fmt.Errorf("-only %s: no row has such a name; -list shows them", f.only)
	}
	if f.list {
		for _, r := range selected {
			fmt.Printf("%-16s %s\n", r.name, r.what)
		}
		return nil
	}
	l, err := newLab(ctx, f)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	if !f.json {
		printHeader(l.about)
	}
	lines, err := runRows(ctx, l, selected, f.json)
	if f.json {
		return errors.Join(err, report.WriteJSON(os.Stdout, l.about.properties(), lines))
	}
	printSummary(lines)
	return err
}

// runRows goes on after a row that fails, and prints the lines of a table as they come.
func runRows(ctx context.Context, l *lab, selected []row, quiet bool) (all []report.Line, err error) {
	for _, r := range selected {
		l.progress("%s: %s", r.name, r.what)
		lines, rowErr := r.run(ctx, l)
		if rowErr != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", r.name, rowErr))
		}
		for i := range lines {
			lines[i].Row = r.name
			if !quiet {
				fmt.Println(lines[i])
			}
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
