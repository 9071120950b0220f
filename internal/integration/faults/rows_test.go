package faults_test

import (
	"context"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/integration/faults"
	"github.com/pglock-toolkit/pglock/internal/pgserver"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/migrations"
)

// newPooler starts a server with the schema for the part, and a pooler of transactions in front of it. pool is not
// pooled.
func newPooler(t *testing.T) (*pgserver.Pooler, *pgxpool.Pool) {
	t.Helper()
	db, pool := newServer(t)
	if err := migrations.Up(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	return testenv.NewPooler(t, db, testenv.TransactionPooling), pool
}

// rowsSilentLoss runs the trials in which a holder is cut off without a message, or its process is stopped or killed.
func rowsSilentLoss(t *testing.T, tally *faults.Tally) {
	pooler, _ := newPooler(t)
	s := scene{deployment: deployment{Kind: onRows, URL: pooler.ConnString()}, tally: tally}
	const inTrials, inProcesses = 400, 120
	what := append(blackHoles(true), lostAnswers(), brokenConnections())
	var all []func()
	for i := range scaled(inTrials, len(what)) {
		all = append(all, func() { s.inTrial(t, what[i%len(what)]) })
	}
	for i := range scaled(inProcesses/lockersOfAChild, 2) {
		all = append(all, func() { s.inChild(t, i%4 == 0) })
	}
	atOnce(sideBySide, all)
}

// lostAnswers loses the answers of the server for a while: commits among them, which the holder has to settle.
func lostAnswers() fault {
	return fault{
		what: "answers are lost for a while", keeps: true,
		make: func(tr *trial) {
			tr.tally.Partitions.Add(1)
			tr.link.Cut(false, true)
			time.Sleep(rand.N(lease))
			tr.link.Cut(false, false)
		},
		undo: func(*trial) {},
	}
}

// brokenConnections ends all connections of the holder, and those that it makes in the next moment.
func brokenConnections() fault {
	return fault{
		what: "all connections break", keeps: true,
		make: func(tr *trial) {
			for end := time.Now().Add(rand.N(lease / 2)); time.Now().Before(end); time.Sleep(rand.N(20 * time.Millisecond)) {
				tr.tally.Kills.Add(1)
				tr.connections.breakAll()
			}
		},
		undo: func(*trial) {},
	}
}

// connections are those that were dialled through a dialer.
type connections struct {
	mu   sync.Mutex
	open map[net.Conn]struct{}
}

func (c *connections) through(dial dialer) dialer {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err == nil {
			c.mu.Lock()
			if c.open == nil {
				c.open = map[net.Conn]struct{}{}
			}
			c.open[conn] = struct{}{}
			c.mu.Unlock()
		}
		return conn, err
	}
}

func (c *connections) breakAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for conn := range c.open {
		_ = conn.Close() // it may be closed already
	}
	clear(c.open)
}

// endRows ends a process that holds locks, so that others can have them, while its transactions go on.
const endRows = `select from (select holder from pglock.row_locks where granted and application = 'updates'
	group by holder order by random() limit 2) as victim where pglock.lease_terminate(holder)`

func rowsGuardedUpdates(t *testing.T, tally *faults.Tally) {
	newRowUpdates(t, tally, true, scaled(10_000, 50)).runGuarded()
}

func rowsUnguardedUpdates(t *testing.T, tally *faults.Tally) {
	newRowUpdates(t, tally, false, scaled(1_000, 50)).runUnguarded()
}

func newRowUpdates(t *testing.T, tally *faults.Tally, guarded bool, kills int) *updates {
	t.Helper()
	pooler, _ := newPooler(t)
	pool, err := pgxpool.New(t.Context(), pooler.ConnString()+"&default_query_exec_mode=exec")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	u := &updates{T: t, tally: tally, pool: pool, open: openRows, kill: endRows, guarded: guarded, kills: kills}
	u.createCounters()
	return u
}
