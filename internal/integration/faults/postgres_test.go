package faults_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/integration/faults"
	"github.com/pglock-toolkit/pglock/internal/testenv"
)

// sideBySide is how many trials, or processes with a few of them, run at the same time.
const sideBySide = 16

// far is the delay, in each direction, of clients that are far from their server.
const far = 5 * time.Millisecond

func silentLossNear(t *testing.T, tally *faults.Tally) { silentLoss(t, tally, 0) }
func silentLossFar(t *testing.T, tally *faults.Tally)  { silentLoss(t, tally, far) }

// silentLoss runs half of the trials on PostgreSQL in which a holder is cut off without a message.
func silentLoss(t *testing.T, tally *faults.Tally, distance time.Duration) {
	db, pool := newServer(t)
	s := scene{
		deployment: deployment{Kind: onPostgres, URL: db.ConnString()}, distance: distance, tally: tally,
	}
	const inTrials, inProcesses = 400, 120
	what := blackHoles(true)
	what = append(what, frozenBackends(pool))
	trials := scaled(inTrials, len(what))
	processes := scaled(inProcesses/lockersOfAChild, 2)
	var all []func()
	for i := range trials {
		all = append(all, func() { s.inTrial(t, what[i%len(what)]) })
	}
	for i := range processes {
		all = append(all, func() { s.inChild(t, i%4 == 0) })
	}
	atOnce(sideBySide, all)
}

// newServer starts a separate server for the part, with room for many sessions.
func newServer(t *testing.T) (*testenv.DB, *pgxpool.Pool) {
	t.Helper()
	server := testenv.NewServer(t, map[string]string{"max_connections": "1000", "shared_buffers": "64MB"})
	keepLog(t, server.LogFile())
	db := testenv.On(t, server)
	return db, db.Pool(t)
}

// atOnce runs all functions, n at a time, in any order.
func atOnce(n int, all []func()) {
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	var next atomic.Int64
	var workers sync.WaitGroup
	for range n {
		workers.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(all) {
					return
				}
				all[i]()
			}
		})
	}
	workers.Wait()
}

// blackHoles are networks that drop what goes to the server, what comes from it, or both.
func blackHoles(frees bool) []fault {
	hole := func(what string, up, down bool) fault {
		return fault{
			what: what, frees: frees,
			make: func(tr *trial) { tr.tally.Partitions.Add(1); tr.link.Cut(up, down) },
			undo: func(tr *trial) { tr.link.Cut(false, false) },
		}
	}
	return []fault{
		hole("everything is kept back", true, true), hole("what is sent is kept back", true, false),
		hole("the answers are kept back", false, true),
	}
}

// frozenBackends stops the server's processes of a holder until the holder has noticed.
func frozenBackends(pool *pgxpool.Pool) fault {
	signal := func(tr *trial, pids []int, signal syscall.Signal) {
		for _, pid := range pids {
			_ = syscall.Kill(pid, signal) // it may have ended
		}
	}
	return fault{
		what: "the server's processes are frozen",
		make: func(tr *trial) {
			rows, err := pool.Query(context.Background(),
				"select pid from pg_stat_activity where application_name like $1 || ' (pglock %'", tr.name)
			if err != nil {
				tr.Error(err)
				return
			}
			pids, err := pgx.CollectRows(rows, pgx.RowTo[int])
			if err != nil {
				tr.Error(err)
				return
			}
			if len(pids) == 0 { // on a machine this busy all leases have expired
				return
			}
			tr.tally.Freezes.Add(1)
			signal(tr, pids, syscall.SIGSTOP)
			tr.undone = func() { signal(tr, pids, syscall.SIGCONT) }
		},
		undo: func(tr *trial) {
			if tr.undone != nil {
				tr.undone()
			}
		},
	}
}
