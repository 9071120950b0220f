// Command compare measures all kinds of locks that one may choose from, on servers of one machine, and prints the table of
// docs/internals/performance.md: how long a free lock takes, how long it takes to pass to another process, and how many are taken a
// second.
//
//	go run ./compare [-rounds N] [-slice DURATION] [-only REGEXP]
//
// The kinds take turns in short slices, in an order that changes from round to round. The figures hold for the machine on
// which they were measured: clients and servers share its cores.
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
	"syscall"

	"github.com/redis/go-redis/v9"

	"github.com/pglock-toolkit/pglock/bench/internal/contest"
	"github.com/pglock-toolkit/pglock/bench/internal/lab"
	"github.com/pglock-toolkit/pglock/bench/internal/peer"
)

// kind is a line of the table.
type kind struct {
	name string
	most int // goroutines, if it needs a connection for each; 0 is any number
}

var kinds = []kind{
	{name: peer.Transaction}, {name: peer.Session}, {name: peer.Row},
	{name: peer.Pool}, {name: peer.Goose}, {name: peer.GooseTable, most: 64}, {name: peer.Migrate, most: 8},
	{name: peer.Redis}, {name: peer.Sentinel}, {name: peer.Cluster}, {name: peer.Redlock3},
	{name: peer.Redlock5}, {name: peer.Rueidislock}, {name: peer.Redsync}, {name: peer.Redislock},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (err error) {
	plan, only, err := contest.Parse(flag.NewFlagSet("compare", flag.ContinueOnError), args)
	if err != nil {
		return err
	}
	redis.SetLogger(quiet{})
	servers, err := lab.Open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, servers.Close()) }()
	if err := servers.StartDeployments(ctx); err != nil {
		return err
	}
	chosen := slices.DeleteFunc(slices.Clone(kinds), func(k kind) bool { return !only.MatchString(k.name) })
	results, err := compare(ctx, servers.At, plan, chosen)
	if err != nil {
		return err
	}
	about := servers.About()
	for _, name := range slices.Sorted(maps.Keys(about)) {
		fmt.Printf("%s %s\n", name, about[name])
	}
	printTable(os.Stdout, results)
	return nil
}

// quiet drops what go-redis says about Sentinels that it has found.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}
