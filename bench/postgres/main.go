// Command postgres measures pglock on PostgreSQL beside what else one would use: plain pgx with a connection for each
// lock, goose's session locker, and pgbench running the same statements, which shows what the server itself can do. It
// starts a throw-away server for that, and prints a table of figures and ratios in which every target is marked as
// reached or not.
//
//	go run ./postgres [-only REGEXP] [-rounds N] [-slice DURATION] [-cpu=false] [-json] [-cpuprofile FILE]
//
// The contestants of a row take turns in short slices, in an order that changes from round to round, and a ratio is the
// median of those of the single rounds. What is compared holds on the machine it was measured on: clients and server
// share its cores.
package main

import (
	"context"
	"os"

	"github.com/pglock-toolkit/pglock/bench/internal/suite"
	"github.com/pglock-toolkit/pglock/bench/internal/worker"
)

// table is the whole command.
var table = suite.Suite[*lab]{Name: "postgres", Peer: "plain pgx", Rows: rows, Open: newLab}

func main() {
	if worker.Order() != "" {
		suite.ExitOn(work(context.Background(), os.Stdin, os.Stdout))
		return
	}
	table.Main()
}
