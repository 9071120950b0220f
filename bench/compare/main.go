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

// kinds are the lines of the table.
var kinds = []string{
	peer.Transaction, peer.Session, peer.Row, peer.Pool, peer.Goose, peer.Redis, peer.Sentinel, peer.Cluster,
	peer.Redlock3, peer.Redlock5, peer.Rueidislock, peer.Redsync, peer.Redislock,
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
	chosen := slices.DeleteFunc(slices.Clone(kinds), func(kind string) bool { return !only.MatchString(kind) })
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
