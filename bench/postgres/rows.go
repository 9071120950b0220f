package main

import (
	"context"
	"time"

	"github.com/pglock-toolkit/pglock/bench/internal/report"
	"github.com/pglock-toolkit/pglock/bench/internal/suite"
)

func row(name, what string, run measured) suite.Row[*lab] {
	return suite.Row[*lab]{Name: name, What: what, Run: run}
}

// measured runs a row.
type measured func(context.Context, *lab) ([]report.Line, error)

// networkDelay is the additional time of each round trip in the rows with a network.
const networkDelay = 500 * time.Microsecond

// rows are the table, in its order.
var rows = []suite.Row[*lab]{
	row("control", "plain pgx against itself: the error of the instrument", control),
	row("network", "the simulated network: its delay and its cost", network),
	row("latency", "1 goroutine, lock and unlock, against a dedicated connection", latency),
	row("keys-2", "2 goroutines, against a connection each", fewGoroutines(2, 1)),
	row("keys-4", "4 goroutines, against a connection each", fewGoroutines(4, 1)),
	row("keys-8", "8 goroutines, against a connection each", fewGoroutines(8, 1)),
	row("keys-16", "16 goroutines, against a connection each", fewGoroutines(16, 2.4)),
	row("keys-64", "64 goroutines, against a pool of 64 connections, goose and pgbench", manyGoroutines(64, 7)),
	row("keys-512", "512 goroutines, against a pool of 64 connections, goose and pgbench", manyGoroutines(512, 16)),
	row("delay-8", "8 goroutines with a network, against a connection each", delayedGoroutines(8, 1)),
	row("delay-64", "64 goroutines with a network, against a pool of 64 connections", delayedGoroutines(64, 1.8)),
	row("delay-512", "512 goroutines with a network, against a pool of 64 connections", delayedGoroutines(512, 12)),
	row("lock-all", "LockAll of 100 keys, against 100 Locks by one goroutine", lockAll),
	row("one-key", "64 goroutines on one key, against 64 waiting connections", oneKey),
	row("handoff", "from one process to another, against two waiting connections", handoff),
	row("takeover", "leadership from one process to another after Resign, against two waiting connections", takeover),
	row("allocations", "allocations for each lock and unlock", allocations),
	row("memory", "memory of a held lock", memory),
	row("waiter", "one waiter that waits", idleWaiter),
	row("growth", "how the cost grows with goroutines and with locks held", growth),
	row("waiters", "10,000 waiters on 1,000 keys held elsewhere", waiters),
	row("semaphore", "10 permits, 64 goroutines on 4 Lockers, against a table with SKIP LOCKED polled every 10 ms", semaphores),
	row("guard", "GuardTx in a transaction of one update", guardTx),
	row("row-locks", "package rowlock through PgBouncer, against a statement and a commit for each lock", rowLocks(512, 10_240, 20)),
	row("row-handoff", "package rowlock: from one process to another that waits", withRows(rowHandoff)),
	row("row-waiters", "package rowlock: 1,000 waiters on one key held elsewhere", withRows(rowWaiters)),
	row("row-renewal", "package rowlock: 10,000 locks held", withRows(rowRenewal)),
	row("row-rivals", "package rowlock beside the table locks of goose and golang-migrate", withRows(rowRivals)),
	row("row-bloat", "package rowlock: 1,000,000 pairs on 10,000 keys", withRows(rowBloat)),
}
