package faults_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/integration/faults"
	"github.com/pglock-toolkit/pglock/internal/pgserver"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/migrations"
)

// newPooler starts a server with the schema for the part, and a pooler of transactions in front of it. pool is not
// pooled.
func newPooler(t *testing.T) (*pgserver.Pooler, *pgxpool.Pool) {
	t.Helper()
	db, pool := newServer(t)
	must.Succeed(t, migrations.Up(t.Context(), pool))
	return testenv.NewPooler(t, db, testenv.TransactionPooling), pool
}

// rowsSilentLoss runs the trials in which a holder is cut off without a message, or its process is stopped or killed.
func rowsSilentLoss(t *testing.T, tally *faults.Tally) {
	pooler, _ := newPooler(t)
	s := scene{deployment: deployment{Kind: onRows, URL: pooler.ConnString()}, tally: tally}
	const inTrials, inProcesses = 400, 120
	what := blackHoles(true)
	var all []func()
	for i := range scaled(inTrials, len(what)) {
		all = append(all, func() { s.inTrial(t, what[i%len(what)]) })
	}
	for i := range scaled(inProcesses/lockersOfAChild, 2) {
		all = append(all, func() { s.inChild(t, i%4 == 0) })
	}
	atOnce(sideBySide, all)
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
	must.Succeed(t, err)
	t.Cleanup(pool.Close)
	u := &updates{T: t, tally: tally, pool: pool, open: openRows, kill: endRows, guarded: guarded, kills: kills}
	u.createCounters()
	return u
}
