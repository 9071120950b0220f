// Command gate compares the speed of this checkout with that of another commit, and fails if a figure has fallen below 0.85
// of the other:
//
//	go run ./gate [-against COMMIT] [-rounds N] [-only REGEXP]
//
// Both are built, the other commit in a worktree, and run in turns on this machine: a round is one short run of each, and a
// ratio is the median over the rounds. So absolute figures, which differ from machine to machine, do not matter.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/pglock-toolkit/pglock/bench/internal/contest"
	"github.com/pglock-toolkit/pglock/bench/internal/report"
)

const (
	least = 0.85
	rows  = "^(pairs-(1|8|64|512)|handoff|rows|snapshot)$"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "gate:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	against := flag.String("against", "", "compare with this `commit`; by default with the last tag")
	rounds := flag.Int("rounds", 7, "number of runs of each")
	only := flag.String("only", rows, "compare the rows of the benchmarks whose name matches this `regexp`")
	flag.Parse()
	if *against == "" {
		// A release is tagged beside main, so its tag is no ancestor of this commit, and its commit may be a child of it.
		*against, err = git(ctx, "-c", "versionsort.suffix=-", "for-each-ref", "--count=1", "--sort=-version:refname",
			"--no-contains=HEAD", "--format=%(refname:short)", "refs/tags/v*")
		if err != nil || *against == "" {
			return errors.Join(errors.New("there is no tag of an earlier release: name a commit with -against"), err)
		}
	}
	folder, err := os.MkdirTemp("", "pglock-gate-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	theirs, err := build(ctx, folder, *against)
	if err != nil {
		return err
	}
	ours := filepath.Join(folder, "ours")
	if err := command(ctx, ".", "go", "build", "-o", ours, "."); err != nil {
		return err
	}
	fmt.Printf("times as fast as %s, median and quartiles of %d rounds:\n", *against, *rounds)
	ratios, err := alternate(ctx, *rounds, func(ctx context.Context, theOther bool) (figures, error) {
		program := ours
		if theOther {
			program = theirs
		}
		return measure(ctx, program, *only)
	})
	if err != nil {
		return err
	}
	return judge(*against, ratios)
}

// build builds the benchmarks of another commit.
func build(ctx context.Context, folder, commit string) (program string, err error) {
	root, err := git(ctx, "rev-parse", "--show-toplevel")
	if err != nil {
		return "", err
	}
	tree := filepath.Join(folder, "tree")
	if err := command(ctx, root, "git", "worktree", "add", "--quiet", "--detach", tree, commit); err != nil {
		return "", err
	}
	defer func() {
		// It is removed after an interrupt as well.
		err = errors.Join(err, command(context.WithoutCancel(ctx), root, "git", "worktree", "remove", "--force", tree))
	}()
	program = filepath.Join(folder, "theirs")
	return program, command(ctx, filepath.Join(tree, "bench"), "go", "build", "-o", program, ".")
}

func git(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", args...).Output()
	return strings.TrimSpace(string(out)), err
}

func command(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return nil
}

// figures are how good a commit is, by name: rates, and the inverse of durations.
type figures map[string]float64

func measure(ctx context.Context, program, only string) (figures, error) {
	cmd := exec.CommandContext(ctx, program, "-json", "-rounds=1", "-only="+only)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it ends its servers
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", program, err)
	}
	var printed struct{ Lines []report.Line }
	if err := json.Unmarshal(out, &printed); err != nil {
		return nil, fmt.Errorf("%s: %w", program, err)
	}
	found := figures{}
	for _, line := range printed.Lines {
		name := line.Row + ": " + strings.TrimSpace(line.What)
		switch {
		case line.Ours.Unit == report.Seconds && line.Ours.Value > 0:
			found[name] = 1 / line.Ours.Value
		case line.Ours.Unit == report.PerSecond:
			found[line.Row] = line.Ours.Value // the same in each line of its row
		}
	}
	return found, nil
}

// alternate measures both commits in each round, the first of them in turns, and divides our figures by theirs.
func alternate(ctx context.Context, rounds int, measure func(_ context.Context, theOther bool) (figures, error)) (map[string]contest.Series, error) {
	ratios := map[string]contest.Series{}
	for round := range rounds {
		var got [2]figures
		for turn := range 2 {
			i := (round + turn) % 2
			var err error
			if got[i], err = measure(ctx, i == 1); err != nil {
				return nil, err
			}
		}
		for name, ours := range got[0] {
			if theirs, ok := got[1][name]; ok {
				ratios[name] = append(ratios[name], ours/theirs)
			}
		}
	}
	return ratios, nil
}
