// Command postgres compares pglock on PostgreSQL with the alternatives: plain pgx with a connection for each lock,
// goose's session locker, and pgbench running the same statements, which shows what the server itself can do. It
// starts a temporary server, and prints a table of figures and ratios that marks each target as reached or missed.
//
//	go run ./postgres [-only REGEXP] [-rounds N] [-slice DURATION] [-cpu=false] [-json] [-cpuprofile FILE]
//
// The contestants of a row take turns in short slices, in an order that changes from round to round, and a ratio is the
// median of the ratios of all rounds. The ratios hold for the machine on which they were measured: clients and server
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
