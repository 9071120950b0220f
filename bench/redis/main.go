// Command redis compares package redisfallback with the alternatives on Redis: rueidislock, redsync and bsm/redislock,
// and the bare commands of a lock through go-redis. It starts temporary servers, and prints a table of figures and
// ratios that marks each target as reached or missed.
//
//	go run ./redis [-only REGEXP] [-rounds N] [-slice DURATION] [-json] [-cpuprofile FILE]
//
// The contestants of a row take turns in short slices, in an order that changes from round to round, and a ratio is the
// median of the ratios of all rounds. The ratios hold for the machine on which they were measured: clients and server
// share its cores.
package main

import (
	"context"
	"fmt"
	"os"
	"runtime"

	"github.com/pglock-toolkit/pglock/bench/internal/contest"
	"github.com/pglock-toolkit/pglock/bench/internal/report"
	"github.com/pglock-toolkit/pglock/bench/internal/suite"
	"github.com/pglock-toolkit/pglock/bench/internal/worker"
	"github.com/pglock-toolkit/pglock/internal/redisserver"
)

// table is the whole command.
var table = suite.Suite[*lab]{Name: "redis", Peer: "peer", Rows: rows, Open: newLab}

// rows are the table, in its order.
var rows = []suite.Row[*lab]{
	row("control", "the bare commands against themselves: the error of the instrument", control),
	row("latency", "1 goroutine, lock and unlock, against the bare commands", latency),
	row("keys-8", "8 goroutines on separate keys", throughput(8)),
	row("keys-64", "64 goroutines on separate keys", throughput(64)),
	row("keys-512", "512 goroutines on separate keys", throughput(512)),
	row("handoff", "8 processes on one key, which ask again after another one has got it", handoff(yielding)),
	row("greedy", "8 processes on one key, which ask again at once", handoff(greedy)),
}

func row(name, what string, run func(context.Context, *lab) ([]report.Line, error)) suite.Row[*lab] {
	return suite.Row[*lab]{Name: name, What: what, Run: run}
}

func main() {
	if worker.Order() != "" {
		suite.ExitOn(work(os.Stdin, os.Stdout))
		return
	}
	table.Main()
}

// lab holds the server and the other resources of the rows.
type lab struct {
	server *redisserver.Server
	plan   contest.Plan
	turn   contest.Plan // plan of the rows with several processes, which need long slices
}

func newLab(_ context.Context, f suite.Flags) (*lab, error) {
	server, err := redisserver.Start()
	if err != nil {
		return nil, err
	}
	return &lab{server: server, plan: f.Plan, turn: contest.Plan{Rounds: f.Plan.Rounds, Slice: 6 * f.Plan.Slice}}, nil
}

// Close implements [suite.Lab].
func (l *lab) Close() error { return l.server.Stop() }

// About implements [suite.Lab].
func (l *lab) About() (title string, about map[string]string) {
	about = map[string]string{
		"redis":         l.server.Version(),
		"go-redis":      suite.ModuleVersion("github.com/redis/go-redis/v9"),
		"rueidislock":   suite.ModuleVersion("github.com/redis/rueidis"),
		"redsync":       suite.ModuleVersion("github.com/go-redsync/redsync/v4"),
		"bsm/redislock": suite.ModuleVersion("github.com/bsm/redislock"),
	}
	title = fmt.Sprintf("Redis %s, %s %s/%s, go-redis %s,\nrueidislock %s, redsync %s, bsm/redislock %s",
		about["redis"], runtime.Version(), runtime.GOOS, runtime.GOARCH, about["go-redis"],
		about["rueidislock"], about["redsync"], about["bsm/redislock"])
	return title, about
}
