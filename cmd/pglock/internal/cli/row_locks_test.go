package cli_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/migrations"
	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/rowlock"
)

// rowLocker returns a Locker with locks in rows, which is closed when the test ends.
func rowLocker(t *testing.T, db *testenv.DB, name string) *pglock.Locker {
	t.Helper()
	l, err := rowlock.New(db.Pool(t), pglock.WithNames(), pglock.WithApplicationName(name))
	must.Succeed(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = l.Close(ctx) // it ends what is held
	})
	return l
}

// contendedRow has one process hold invoice:42 in a row, and another wait for it, until the test ends.
func contendedRow(t *testing.T, db *testenv.DB) (held *pglock.Lock, holder string) {
	t.Helper()
	held, err := rowLocker(t, db, "billing").Lock(t.Context(), pglock.NewKey("invoice:42"))
	must.Succeed(t, err)
	waiter := rowLocker(t, db, "shop")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		lock, err := waiter.Lock(ctx, pglock.NewKey("invoice:42"))
		if err == nil {
			err = lock.Unlock(context.WithoutCancel(ctx))
		}
		ended <- err
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("the waiter: %v", err)
		}
	})
	pool := db.Pool(t)
	testenv.WaitUntil(t, "the name and the waiter in a row", func() bool {
		s, err := monitor.Take(t.Context(), pool)
		must.Succeed(t, err)
		if len(s.RowLocks) == 1 && s.RowLocks[0].Name != "" && len(s.RowLocks[0].Waiters) == 1 {
			holder = s.RowLocks[0].Holders[0].Holder
		}
		return holder != ""
	})
	return held, holder
}

func TestMonitorShowsLocksInRows(t *testing.T) {
	t.Parallel()
	db := testenv.Installed(t)
	_, holder := contendedRow(t, db)
	r := on(t, db, "monitor", "--once").run()
	wantCode(t, r, 0)
	wantText(t, r.stdout, "locks in rows of database "+db.Name()+": 1 key, 1 holder, 1 waiter", "invoice:42  @6688477336110245193",
		"holds  excl  "+holder+" billing on ", "lease left ", "generation 1", "waits  excl  ", " shop on ")
	r = on(t, db, "monitor", "--once", "--key", "other").run()
	wantCode(t, r, 0)
	if strings.Contains(r.stdout, holder) {
		t.Errorf("another key was chosen:\n%s", r.stdout)
	}
	snapshot := parse(t, on(t, db, "monitor", "--once", "-o", "ndjson", "--application", "shop").run().stdout)
	if len(snapshot.RowLocks) != 1 || snapshot.RowLocks[0].Holders[0].Application != "billing" {
		t.Errorf("in JSON: %+v", snapshot.RowLocks)
	}
}

func TestMonitorFailsIfAProcessWaitsForALockInARow(t *testing.T) {
	t.Parallel()
	db := testenv.Installed(t)
	r := on(t, db, "monitor", "--once", "--fail-if-waiting", "0", "--database", "no such").run()
	wantCode(t, r, 3)
	wantText(t, r.stdout, `the server has no database "no such"`)
	r = on(t, db, "monitor", "--once", "--database", "no such").run()
	wantCode(t, r, 0)
	wantText(t, r.stderr, `the server has no database "no such"`)
	r = on(t, db, "monitor", "--once", "--fail-if-waiting", "0", "--database", db.Name()).run()
	wantCode(t, r, 0)
	contendedRow(t, db)
	r = on(t, db, "monitor", "--once", "--fail-if-waiting", "0", "--database", db.Name()).run()
	wantCode(t, r, 2)
	wantText(t, r.stdout, "PGLOCK CRITICAL", "billing (process ", " holds invoice:42 (excl) in a row for ", ": frees 1, longest wait ", "pglock terminate", " --holder ", "waiters=1;")
}

func TestTerminateEndsAHolderOfLocksInRows(t *testing.T) {
	t.Parallel()
	db := testenv.Installed(t)
	held, holder := contendedRow(t, db)
	r := on(t, db, "terminate", "--holder", holder).run()
	wantCode(t, r, 64)
	wantText(t, r.stderr, "process "+holder+" billing on ", "it holds 1 key", "invoice:42 excl since ", "1 waiter", "--holder "+holder+" --yes")
	r = command(t, nil, "terminate", "-d", db.ConnString(), "--holder", holder, "--dry-run").run()
	wantCode(t, r, 0)
	wantText(t, r.stdout, "it holds 1 key", "\npglock terminate -", " -d "+db.Name()+" --holder "+holder+" --yes")
	must.Succeed(t, held.Verify(t.Context()))
	wantCode(t, on(t, db, "terminate", "--holder", holder, "--dry-run", "--yes").run(), 64)
	wantCode(t, on(t, db, "terminate", "--holder", "00112233445566aa", "--yes").run(), 66)
	wantCode(t, on(t, db, "terminate", "--holder", "nonsense", "--yes").run(), 66)
	wantCode(t, on(t, db, "terminate", "--holder", holder, "--key", "invoice:42").run(), 64)
	r = on(t, db, "terminate", "--key", "invoice:42").run()
	wantCode(t, r, 66)
	wantText(t, r.stderr, "use --holder "+holder)

	role := db.Role(t, "watcher")
	may := func(code int, text string) {
		t.Helper()
		r := command(t, []string{"DATABASE_URL=" + role}, "terminate", "--holder", holder, "--yes").run()
		wantCode(t, r, code)
		wantText(t, r.stderr, text)
	}
	may(77, "SELECT on pglock.row_locks")
	config, err := pgx.ParseConfig(role)
	must.Succeed(t, err)
	execute(t, db, migrations.WatcherGrants(config.User))
	may(77, "EXECUTE on function pglock.lease_terminate(text)")
	must.Succeed(t, held.Verify(t.Context()))

	r = on(t, db, "terminate", "--holder", holder, "--yes").run()
	wantCode(t, r, 0)
	wantText(t, r.stdout, "is ended: its locks in rows are free (1)")
	wantText(t, r.stderr, "holder="+holder, "locks=1")
	if err := held.Verify(t.Context()); !errors.Is(err, pglock.ErrLost) {
		t.Errorf("the holder was told %v", err)
	}
	wantCode(t, on(t, db, "terminate", "--holder", holder, "--yes").run(), 66)
}

func TestCompletionOffersHoldersOfLocksInRows(t *testing.T) {
	t.Parallel()
	db := testenv.Installed(t)
	_, holder := contendedRow(t, db)
	for _, begun := range []string{"", holder[:5]} {
		r := on(t, db, "__complete", "terminate", "--holder", begun).run()
		wantCode(t, r, 0)
		if line, _, _ := strings.Cut(r.stdout, "\n"); line != holder+"\tbilling invoice:42" {
			t.Errorf("after %q it offers %q", begun, r.stdout)
		}
	}
	r := on(t, db, "__complete", "terminate", "--holder", "x").run()
	wantCode(t, r, 0)
	if strings.Contains(r.stdout, holder) {
		t.Errorf("after x it offers %q", r.stdout)
	}
}
