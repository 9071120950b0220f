package main

import (
	"time"

	"github.com/pglock-toolkit/pglock/bench/internal/peer"
)

// rows are the table, in its order.
var rows = []row{
	{"control", "plain pgx against itself: the error of the instrument",
		pairs{goroutines: 8, ours: peer.Connections, peers: []string{peer.Connections}}.run},
	{"pairs-1", "1 goroutine, against a connection of its own and goose",
		pairs{goroutines: 1, ours: peer.Session, peers: []string{peer.Connections, peer.Goose}, least: 0.9}.run},
	{"pairs-8", "8 goroutines, against a connection each and goose",
		pairs{goroutines: 8, ours: peer.Session, peers: []string{peer.Connections, peer.Goose}, least: 1}.run},
	{"pairs-64", "64 goroutines, against a pool of 64 connections, goose and pgbench",
		pairs{goroutines: 64, ours: peer.Session, peers: []string{peer.Pool, peer.Goose}, server: true, least: 7}.run},
	{"pairs-512", "512 goroutines, against a pool of 64 connections, goose and pgbench",
		pairs{goroutines: 512, ours: peer.Session, peers: []string{peer.Pool, peer.Goose}, server: true, least: 16}.run},
	{"far-64", "64 goroutines on a network of 0.5 ms, against a pool of 64 connections",
		pairs{goroutines: 64, ours: peer.Session, peers: []string{peer.Pool}, delay: networkDelay, least: 1.8}.run},
	{"one-key", "64 goroutines on one key, against 64 waiting connections",
		pairs{goroutines: 64, oneKey: true, ours: peer.Session, peers: []string{peer.Connections}, least: 50}.run},
	{"handoff", "from one process to another that waits, against plain connections",
		handoff{ours: peer.Session, peer: peer.Connections, most: 1.15}.run},
	{"rows", "locks in rows through PgBouncer, 512 goroutines, against a commit for each lock",
		pairs{goroutines: 512, keys: 20, ours: peer.RowPooled, peers: []string{peer.Table}, least: 10}.run},
	{"convoy-2", "locks in rows: 2 Lockers on one key that is held for 1 ms", convoy{lockers: 2, least: 60}.run},
	{"convoy-5", "5 of them", convoy{lockers: 5, least: 60}.run},
	{"convoy-10", "10 of them", convoy{lockers: 10, least: 60}.run},
	{"convoy-20", "20 of them", convoy{lockers: 20, least: 60}.run},
	{"convoy-40", "40 of them", convoy{lockers: 40, least: 60, mostFree: 150 * time.Millisecond}.run},
	{"convoy-pooled", "100 of them, through PgBouncer with 10 connections",
		convoy{lockers: 100, pooled: true, least: 40, mostFree: 300 * time.Millisecond}.run},
	{"both", "locks in rows: LockAll of two keys against 20 Lockers of each", both},
	{"tries", "locks in rows: 10 Lockers that only try, against sessions", tries},
	{"redis-1", "Redis, 1 goroutine, against the bare commands and other libraries",
		pairs{goroutines: 1, keys: 1, ours: peer.Redis, peers: onRedis, least: 0.9}.run},
	{"redis-8", "Redis, 8 goroutines",
		pairs{goroutines: 8, keys: 1, ours: peer.Redis, peers: onRedis, least: 0.85, against: peer.Rueidislock}.run},
	{"redis-64", "Redis, 64 goroutines",
		pairs{goroutines: 64, keys: 1, ours: peer.Redis, peers: onRedis, least: 1, against: peer.Rueidislock}.run},
	{"redis-512", "Redis, 512 goroutines",
		pairs{goroutines: 512, keys: 1, ours: peer.Redis, peers: onRedis, least: 1, against: peer.Rueidislock}.run},
	{"rates", "rate limits, 512 callers on 16 keys, against an upsert per call and redis_rate", rates},
	{"once", "a transaction with package once, against INSERT … ON CONFLICT", doOnce},
	{"fence", "64 locks with a fencing token, against a plain nextval", fence},
	{"snapshot", "a snapshot of 10,000 locks with names, and 200 waiters", snapshot},
}

var onRedis = []string{peer.BareRedis, peer.Rueidislock, peer.Redsync, peer.Redislock}
