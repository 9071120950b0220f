package main

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/pglock-toolkit/pglock/bench/internal/report"
)

// row is a part of the table that can be run alone.
type row struct {
	name string
	what string
	run  func(context.Context, *lab) ([]report.Line, error)
}

// networkDelay is how much longer each round trip takes in the rows with a network.
const networkDelay = 500 * time.Microsecond

// rows are the table, in its order.
func rows() []row {
	all := []row{
		{"latency", "one goroutine, lock and unlock", latency},
	}
	for _, n := range []int{2, 4, 8, 16} {
		all = append(all, row{fmt.Sprintf("keys-%d", n),
			fmt.Sprintf("%d goroutines, a connection each on plain pgx", n), fewGoroutines(n)})
	}
	for n, least := range map[int]float64{64: 2.5, 512: 9} {
		all = append(all, row{fmt.Sprintf("keys-%d", n),
			fmt.Sprintf("%d goroutines, %d connections on plain pgx", n, poolSize), manyGoroutines(n, least)})
	}
	slices.SortStableFunc(all[5:], func(a, b row) int { return len(a.name) - len(b.name) })
	return append(all, []row{
		{"delay-8", fmt.Sprintf("8 goroutines, %v of network delay", networkDelay), delayedGoroutines(8, 1)},
		{"delay-512", fmt.Sprintf("512 goroutines, %v of network delay", networkDelay), delayedGoroutines(512, 9)},
		{"one-key", "64 goroutines on one key", oneKey},
		{"handoff", "from one process to another", handoff},
		{"allocations", "allocations for each lock and unlock", allocations},
		{"memory", "memory of a held lock", memory},
		{"waiters", "10,000 waiters on 1,000 keys held elsewhere", waiters},
		{"guard", "GuardTx in a transaction of one update", guardTx},
	}...)
}

func selectRows(only *regexp.Regexp) []row {
	return slices.DeleteFunc(rows(), func(r row) bool { return !only.MatchString(r.name) })
}
