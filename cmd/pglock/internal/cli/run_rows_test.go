package cli_test

import (
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/migrations"
	"github.com/pglock-toolkit/pglock/pglock"
)

// onRows returns a process that runs a command under a lock in a row, through a pooler of transactions.
func onRows(t *testing.T, through string, args ...string) *process {
	t.Helper()
	return command(t, []string{"DATABASE_URL=" + through}, append([]string{"run", "--rows"}, args...)...)
}

func TestRunRowsPassesAPoolerOfTransactions(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	through := testenv.PgBouncer(t, db, testenv.TransactionPooling)
	r := onRows(t, through, "k", "--", "true").run()
	wantCode(t, r, 69)
	wantText(t, r.stderr, "schema pglock is not installed")
	must.Succeed(t, migrations.Up(t.Context(), db.Pool(t)))

	held, err := rowLocker(t, db, "billing").Lock(t.Context(), pglock.NewKey("k"))
	must.Succeed(t, err)
	r = onRows(t, through, "-n", "k", "--", "true").run()
	wantCode(t, r, 75)
	wantText(t, r.stderr, `lock "k" not acquired`, "billing")
	wantCode(t, onRows(t, through, "-n", "--permits", "1", "k", "--", "true").run(), 0) // which is another lock
	must.Succeed(t, held.Unlock(t.Context()))

	r = onRows(t, through, "k", "--", "sh", "-c", `echo "$PGLOCK_KEY, $((PGLOCK_FENCE > 0))"; exit 3`).run()
	wantCode(t, r, 3)
	if r.stdout != "k, 1\n" || r.stderr != "" {
		t.Errorf("the command has %q, and pglock says %q", r.stdout, r.stderr)
	}
	once := func() string {
		r := onRows(t, through, "--tick", "@every 87600h", "k", "--", "echo", "ran").run()
		wantCode(t, r, 0)
		return r.stdout
	}
	if first, second := once(), once(); first != "ran\n" || second != "" {
		t.Errorf("of one tick the first run says %q, the second one %q", first, second)
	}
	if traces := testenv.PooledTraces(t, db, through); len(traces) > 0 {
		t.Errorf("in the sessions of the pooler are: %v", traces)
	}
}

func TestRunRowsEndsTheCommandIfItsLockIsLost(t *testing.T) {
	t.Parallel()
	db := testenv.Installed(t)
	p := on(t, db, "run", "--rows", "k", "--", "sh", "-c", "echo begun; sleep 1000").start()
	p.waitForOutput("begun")
	execute(t, db, "SELECT pglock.lease_terminate(holder) FROM pglock.row_locks")
	r := p.end()
	wantCode(t, r, 70)
	wantText(t, r.stderr, `lock "k" lost: the server no longer has it`, "ending the command")
}

func TestRunRowsRefusesAFlagOfSessions(t *testing.T) {
	t.Parallel()
	r := command(t, nil, "run", "--rows", "--allow-pooler", "k", "--", "true").run()
	wantCode(t, r, 64)
	wantText(t, r.stderr, "contradicts", "--rows")
}
