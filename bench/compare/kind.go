package main

import (
	"context"
	"errors"

	"github.com/pglock-toolkit/pglock/bench/internal/redispeer"
)

// kind is a kind of lock.
type kind struct {
	name string
	open func(context.Context, *lab) (*locker, error)
	most int // goroutines, if it needs a connection for each; 0 is any number

	// For the reader: when a lock may be lost while its holder works, what the kind needs, and when to choose it.
	lost, needs, choose string
}

// locker takes locks as one process would, on its own connections.
type locker struct {
	// lock waits for the lock of a number.
	lock  func(ctx context.Context, number int) (unlock func() error, err error)
	close func() error
}

// errMissing says that a kind cannot be measured on this machine.
var errMissing = errors.New("not available here")

var kinds = []kind{
	{
		name: "transaction lock", open: openTx,
		lost: "with its transaction, which then changes nothing", needs: "a transaction that is open meanwhile",
		choose: "for a change that is one transaction",
	},
	{
		name: "session lock", open: openSession,
		lost:   "process: freed at once; network: after a lease; server or failover: with its session. GuardTx refuses stale writes",
		needs:  "two connections for all locks of a process, not through a transaction pooler",
		choose: "across transactions and processes",
	},
	{
		name: "row lease", open: openRow,
		lost:   "process or network: after a lease; server: no; failover: not if it is synchronous. GuardTx refuses stale writes",
		needs:  "the schema, and two commits for each lock",
		choose: "through a transaction pooler",
	},
	{
		name: "plain pgx", open: openPlain,
		lost: "with its connection, and nothing says so", needs: "a connection for each lock", choose: "for a program of a few lines",
	},
	{
		name: "goose", open: openGoose,
		lost: "with its connection", needs: "a connection for each lock", choose: "for goose's migrations",
	},
	{
		name: "goose, table", open: openGooseTable, most: 64,
		lost: "after a lease without a heartbeat", needs: "a table", choose: "for goose's migrations through a pooler",
	},
	{
		name: "migrate", open: openMigrate, most: 8,
		lost: "with its connection", needs: "a connection for each lock", choose: "for golang-migrate's migrations",
	},
	{
		name: "Redis", open: openPeer(redispeer.Ours),
		lost:   "process or network: after a lease; server: unless it keeps its data; failover: maybe. Fence numbers the holders",
		needs:  "a Redis",
		choose: "where there is no PostgreSQL",
	},
	{
		name: "Valkey", open: openValkey,
		lost: "as on Redis", needs: "a Valkey", choose: "as Redis",
	},
	{
		name: "Sentinel", open: openSentinel,
		lost: "as on Redis: a failover may forget it", needs: "a primary, a replica, three Sentinels", choose: "as Redis, if it must stay available",
	},
	{
		name: "Cluster", open: openCluster,
		lost: "as on Redis: a failover may forget it", needs: "three masters", choose: "where a Cluster exists",
	},
	{
		name: "Redlock of 3", open: openRedlock(3),
		lost: "process or network: after a lease; one server: no", needs: "three servers that are independent",
		choose: "without PostgreSQL, if a failover must not forget locks",
	},
	{
		name: "Redlock of 5", open: openRedlock(5),
		lost: "process or network: after a lease; two servers: no", needs: "five servers that are independent", choose: "the same",
	},
	{
		name: "rueidislock", open: openPeer("rueidislock"),
		lost: "as on Redis", needs: "a Redis", choose: "with rueidis",
	},
	{
		name: "redsync", open: openPeer("redsync"),
		lost: "as on Redis; it does not renew its lease", needs: "a Redis", choose: "for locks shorter than a lease that is guessed",
	},
	{
		name: "bsm/redislock", open: openPeer("bsm/redislock"),
		lost: "as on Redis; it does not renew its lease", needs: "a Redis", choose: "for locks shorter than a lease that is guessed",
	},
}
