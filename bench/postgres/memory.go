package main

import (
	"context"
	"errors"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/pglock-toolkit/pglock/bench/internal/contest"
	"github.com/pglock-toolkit/pglock/bench/internal/report"
	"github.com/pglock-toolkit/pglock/pglock"
)

// allocations counts the allocations of one lock and unlock.
func allocations(ctx context.Context, l *lab) (_ []report.Line, err error) {
	r, err := l.held(ctx, 1, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	mine, mineBytes, err := allocated(ctx, lockerPairs(r.locker, distinctKey))
	if err != nil {
		return nil, err
	}
	theirs, theirBytes, err := allocated(ctx, r.plain.pairs(distinctKey))
	if err != nil {
		return nil, err
	}
	count := report.Line{
		What: "allocations, lock + unlock",
		Ours: report.Figure{Value: mine, Unit: report.Count},
		Peer: report.Figure{Value: theirs, Unit: report.Count},
	}
	return []report.Line{count.Aim(report.AtMost, 10), {
		What: "  bytes",
		Ours: report.Figure{Value: mineBytes, Unit: report.Bytes},
		Peer: report.Figure{Value: theirBytes, Unit: report.Bytes},
	}}, nil
}

// allocated counts what the whole process allocates per unit while one goroutine works.
func allocated(ctx context.Context, work contest.Work) (count, bytes float64, err error) {
	const warmUp, n = 1000, 20_000
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var before, after runtime.MemStats
	for i := range warmUp + n {
		if i == warmUp {
			runtime.ReadMemStats(&before)
		}
		if err := work(ctx, 0, i); err != nil {
			return 0, 0, err
		}
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / n, float64(after.TotalAlloc-before.TotalAlloc) / n, nil
}

// memory measures the client's memory while it holds many locks. With plain pgx each lock takes a connection, so a
// few locks will do.
func memory(ctx context.Context, l *lab) (_ []report.Line, err error) {
	n := min(10_000, l.most)
	perConnection, err := l.connectionMemory(ctx, poolSize)
	if err != nil {
		return nil, err
	}
	locker, err := l.locker(ctx, nil, pglock.WithMaxHeld(2*n))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeLocker(locker)) }()
	locks := make([]*pglock.Lock, n)
	before := inUse()
	if err := lockEach(ctx, locker, locks); err != nil {
		return nil, err
	}
	perLock := float64(inUse()-before) / float64(n)
	connections, err := l.connections(ctx, n, 2)
	if err != nil {
		return nil, err
	}
	if err := unlockEach(ctx, locks); err != nil {
		return nil, err
	}
	line := report.Line{
		What: "memory of each of 10,000",
		Ours: report.Figure{Value: perLock, Unit: report.Bytes},
		Peer: report.Figure{Value: perConnection, Unit: report.Bytes},
	}
	return []report.Line{line.Aim(report.Below, 1024), connections}, nil
}

// connectionMemory returns the memory of a plain connection that holds a lock. The lock is not one of lockEach's,
// since the server may take a moment to notice that the connection was closed.
func (l *lab) connectionMemory(ctx context.Context, n int) (_ float64, err error) {
	before := inUse()
	conns, err := l.plainConns(ctx, n, nil)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, conns.close()) }()
	for i, conn := range conns {
		if _, err := conn.Exec(ctx, plainLock, distinctKey(i, 0)); err != nil {
			return 0, err
		}
	}
	return float64(inUse()-before) / float64(n), nil
}

// lockEach takes a separate lock for each element, some at a time.
func lockEach(ctx context.Context, locker *pglock.Locker, locks []*pglock.Lock) error {
	return each(ctx, locks, func(ctx context.Context, i int) (err error) {
		locks[i], err = locker.Lock(ctx, pglock.Int64Key(int64(i)))
		return err
	})
}

func unlockEach(ctx context.Context, locks []*pglock.Lock) error {
	return each(ctx, locks, func(ctx context.Context, i int) error { return locks[i].Unlock(ctx) })
}

func each(ctx context.Context, locks []*pglock.Lock, do func(context.Context, int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(64)
	for i := range locks {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}

// inUse is the memory in use after garbage collection, in bytes: the heap and the stacks of
// goroutines.
func inUse() int64 {
	var stats runtime.MemStats
	for range 2 { // pools are emptied by the second collection
		runtime.GC()
	}
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc + stats.StackInuse)
}
