package main

import (
	"context"
	"regexp"
	"time"

	"github.com/pglock-toolkit/pglock/bench/internal/report"
)

// row is a part of the table that can be run alone.
type row struct {
	name string
	what string
	run  measured
}

// measured runs a row. It returns the lines that it has, with an error too.
type measured func(context.Context, *lab) ([]report.Line, error)

// networkDelay is how much longer each round trip takes in the rows with a network.
const networkDelay = 500 * time.Microsecond

// rows are the table, in its order.
var rows = []row{
	{"control", "plain pgx against itself: the error of the instrument", control},
	{"network", "what stands in for a network: its delay and its cost", network},
	{"latency", "1 goroutine, lock and unlock, against a connection that is held", latency},
	{"keys-2", "2 goroutines, against a connection each", fewGoroutines(2)},
	{"keys-4", "4 goroutines, against a connection each", fewGoroutines(4)},
	{"keys-8", "8 goroutines, against a connection each", fewGoroutines(8)},
	{"keys-16", "16 goroutines, against a connection each", fewGoroutines(16)},
	{"keys-64", "64 goroutines, against a pool of 64 connections, goose and pgbench", manyGoroutines(64, 2.5)},
	{"keys-512", "512 goroutines, against a pool of 64 connections, goose and pgbench", manyGoroutines(512, 9)},
	{"delay-8", "8 goroutines with a network, against a connection each", delayedGoroutines(8, 1)},
	{"delay-512", "512 goroutines with a network, against a pool of 64 connections", delayedGoroutines(512, 9)},
	{"one-key", "64 goroutines on one key, against 64 waiting connections", oneKey},
	{"handoff", "from one process to another, against two waiting connections", handoff},
	{"allocations", "allocations for each lock and unlock", allocations},
	{"memory", "memory of a held lock", memory},
	{"waiters", "10,000 waiters on 1,000 keys held elsewhere", waiters},
	{"guard", "GuardTx in a transaction of one update", guardTx},
}

func selectRows(only *regexp.Regexp) (selected []row) {
	for _, r := range rows {
		if only.MatchString(r.name) {
			selected = append(selected, r)
		}
	}
	return selected
}
