// Command compare measures all kinds of locks that one may choose from, on servers of one machine, and prints them on one
// page: how long a free lock takes, how long it takes to pass to another process, and how many are taken a second.
//
//	go run ./compare [-rounds N] [-slice DURATION] [-only REGEXP] [-markdown]
//
// The kinds take turns in short slices, in an order that changes from round to round. The figures hold for the machine on
// which they were measured: clients and servers share its cores.
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

	"github.com/redis/go-redis/v9"

	"github.com/pglock-toolkit/pglock/bench/internal/contest"
	"github.com/pglock-toolkit/pglock/bench/internal/suite"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	suite.ExitOn(run(ctx, os.Args[1:]))
}

func run(ctx context.Context, args []string) (err error) {
	set := flag.NewFlagSet("compare", flag.ContinueOnError)
	plan := contest.Plan{}
	set.IntVar(&plan.Rounds, "rounds", 7, "number of slices for each kind and number of goroutines")
	set.DurationVar(&plan.Slice, "slice", 500*time.Millisecond, "length of a slice")
	only := set.String("only", "", "compare the kinds whose name matches this `regexp`")
	markdown := set.Bool("markdown", false, "print a table for the documentation")
	if err := set.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	wanted, err := regexp.Compile(*only)
	if err != nil || set.NArg() > 0 || plan.Rounds < 1 || plan.Slice <= 0 {
		return errors.Join(errors.New("want no arguments, -rounds and -slice above 0, and a regular expression for -only"), err)
	}
	redis.SetLogger(quiet{})
	l, err := openLab(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	results, err := compare(ctx, l, plan, choose(wanted))
	if err != nil {
		return err
	}
	fmt.Println(l.about())
	if *markdown {
		printMarkdown(os.Stdout, results)
	} else {
		printTable(os.Stdout, results)
	}
	return nil
}

// quiet drops what go-redis says about Sentinels that it has found.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

func choose(wanted *regexp.Regexp) (chosen []kind) {
	for _, k := range kinds {
		if wanted.MatchString(k.name) {
			chosen = append(chosen, k)
		}
	}
	return chosen
}
