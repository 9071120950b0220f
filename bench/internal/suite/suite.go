// Package suite is the common part of the benchmark commands: flags, sequence, profiles, and output.
package suite

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

// Suite is a benchmark command. L is the type of the resources that its rows need, such as a
// server.
type Suite[L Lab] struct {
	Name string
	// Peer is the title of the column with the peers.
	Peer string
	Rows []Row[L]
	// Open makes the lab for the rows.
	Open func(context.Context, Flags) (L, error)
}

// Lab holds the resources of the rows.
type Lab interface {
	// About describes what is compared: in one line, and as properties, such as versions.
	About() (title string, properties map[string]string)
	Close() error
}

// Row is a part of the table that can be run alone.
type Row[L any] struct {
	Name string
	What string
	// Run returns the lines that it has, even with an error.
	Run func(context.Context, L) ([]report.Line, error)
}

// Flags are the command line.
type Flags struct {
	Plan contest.Plan
	// ShowCPU asks for the processor time too.
	ShowCPU bool

	only       *regexp.Regexp
	list, json bool
	cpuProfile string
	memProfile string
	limit      time.Duration
}

// Main is the main function of the command.
func (s Suite[L]) Main() {
	f, err := s.parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	ExitOn(err)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, f.limit, fmt.Errorf("not finished after %v (-timeout)", f.limit))
	defer cancel()
	ExitOn(f.profiled(func() error { return s.run(ctx, f) }))
}

// ExitOn ends the program if there is an error.
func ExitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func (s Suite[L]) parse(args []string) (Flags, error) {
	f := Flags{}
	set := flag.NewFlagSet(s.Name, flag.ContinueOnError)
	set.IntVar(&f.Plan.Rounds, "rounds", 7, "number of slices for each contestant of a row")
	set.DurationVar(&f.Plan.Slice, "slice", 500*time.Millisecond, "length of a slice")
	set.BoolVar(&f.list, "list", false, "list the rows and do nothing")
	set.BoolVar(&f.json, "json", false, "print JSON instead of a table")
	set.BoolVar(&f.ShowCPU, "cpu", true, "also show the processor time per pair, which depends less on other load")
	set.StringVar(&f.cpuProfile, "cpuprofile", "",
		"write a CPU profile to this `file`; its label contestant names the contestant")
	set.StringVar(&f.memProfile, "memprofile", "", "write a profile of all allocations to this `file`")
	set.DurationVar(&f.limit, "timeout", 20*time.Minute, "time limit")
	only := set.String("only", "", "run the rows whose name matches this `regexp`")
	if err := set.Parse(args); err != nil {
		return f, err
	}
	if set.NArg() > 0 || f.Plan.Rounds < 1 || f.Plan.Slice <= 0 || f.limit <= 0 {
		return f, errors.New("want no arguments, and -rounds, -slice and -timeout above 0; see -help")
	}
	var err error
	if f.only, err = regexp.Compile(*only); err != nil {
		return f, fmt.Errorf("-only: %w", err)
	}
	return f, nil
}

// profiled runs do with the profiles that were asked for.
func (f Flags) profiled(do func() error) (err error) {
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

func (s Suite[L]) run(ctx context.Context, f Flags) (err error) {
	selected := s.Select(f.only)
	if len(selected) == 0 {
		return fmt.Errorf("-only %s: no row has such a name; -list shows them", f.only)
	}
	if f.list {
		for _, r := range selected {
			fmt.Printf("%-16s %s\n", r.Name, r.What)
		}
		return nil
	}
	lab, err := s.Open(ctx, f)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lab.Close()) }()
	title, about := f.about(lab)
	if !f.json {
		printHeader(title, about, s.Peer)
	}
	lines, err := runRows(ctx, lab, selected, f.json)
	if f.json {
		return errors.Join(err, report.WriteJSON(os.Stdout, about, lines))
	}
	printSummary(lines)
	return err
}

// Select returns the rows whose name matches.
func (s Suite[L]) Select(only *regexp.Regexp) (selected []Row[L]) {
	for _, r := range s.Rows {
		if only.MatchString(r.Name) {
			selected = append(selected, r)
		}
	}
	return selected
}

// runRows continues after a row that fails, and prints the lines of a table as they arrive.
func runRows[L Lab](ctx context.Context, lab L, selected []Row[L], quiet bool) (all []report.Line, err error) {
	for _, r := range selected {
		progress("%s: %s", r.Name, r.What)
		lines, rowErr := r.Run(ctx, lab)
		if rowErr != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", r.Name, rowErr))
		}
		for i := range lines {
			lines[i].Row = r.Name
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
