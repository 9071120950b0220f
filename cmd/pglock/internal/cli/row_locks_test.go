package cli_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/doctor"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/migrations"
	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/rowlock"
)

// rowLocker returns a Locker with locks in rows, which is closed when the test ends.
func rowLocker(t *testing.T, db *testenv.DB, name string, trusted ...string) *pglock.Locker {
	t.Helper()
	l, err := rowlock.New(db.Pool(t), pglock.WithNames(), pglock.WithApplicationName(name), pglock.WithTrustedOwner(trusted...))
	must.Succeed(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = l.Close(ctx) // it ends what is held
	})
	return l
}

// contendedRow has one process hold invoice:42 in a row, and another wait for it, until the test ends.
func contendedRow(t *testing.T, db *testenv.DB, trusted ...string) (held *pglock.Lock, holder string) {
	t.Helper()
	held, err := rowLocker(t, db, "billing", trusted...).Lock(t.Context(), pglock.NewKey("invoice:42"))
	must.Succeed(t, err)
	waiter := rowLocker(t, db, "shop", trusted...)
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
		s, err := monitor.Take(t.Context(), pool, monitor.WithTrustedOwner(trusted...))
		must.Succeed(t, err)
		for _, lock := range s.Locks {
			if lock.InRow && len(lock.Names) == 1 && len(lock.Waiters) == 1 {
				holder = lock.Holders[0].Lease.Holder
			}
		}
		return holder != ""
	})
	return held, holder
}

func TestTerminateEndsAHolderOfLocksInRows(t *testing.T) {
	t.Parallel()
	db := testenv.Installed(t)
	held, holder := contendedRow(t, db)
	wantText(t, command(t, nil, "terminate", "--help").run().stdout, "do not ask (needs PID@SINCE or --holder)")
	r := on(t, db, "terminate", "--holder", holder).run()
	wantCode(t, r, 64)
	wantText(t, r.stderr, "process "+holder+" billing on ", "It holds 1 lock; 1 process waits for it.", "invoice:42 (row)", "--holder "+holder+" --yes")
	r = command(t, nil, "terminate", "-d", db.ConnString(), "--holder", holder, "--dry-run").run()
	wantCode(t, r, 0)
	wantText(t, r.stdout, "It holds 1 lock", "\npglock terminate -d ", "/"+db.Name()+" --holder "+holder+" --yes")
	must.Succeed(t, held.Verify(t.Context()))
	wantCode(t, on(t, db, "terminate", "--holder", holder, "--dry-run", "--yes").run(), 64)
	wantCode(t, on(t, db, "terminate", "--holder", "00112233445566aa", "--yes").run(), 66)
	wantCode(t, on(t, db, "terminate", "--holder", "nonsense", "--yes").run(), 64)
	wantCode(t, on(t, db, "terminate", "--holder", holder, "4711").run(), 64)

	role := db.Role(t, "watcher")
	may := func(code int, text string) {
		t.Helper()
		r := command(t, []string{"DATABASE_URL=" + role}, "terminate", "--holder", holder, "--yes").run()
		wantCode(t, r, code)
		wantText(t, r.stderr, text)
	}
	may(77, "GRANT SELECT ON pglock.row_locks")
	config, err := pgx.ParseConfig(role)
	must.Succeed(t, err)
	execute(t, db, migrations.WatcherGrants(config.User))
	may(77, "EXECUTE on function pglock.lease_terminate(text)")
	must.Succeed(t, held.Verify(t.Context()))

	r = on(t, db, "terminate", "--holder", holder, "--yes").run()
	wantCode(t, r, 0)
	wantText(t, r.stdout, "process "+holder+" has lost its locks in rows", "1 lock is free")
	wantText(t, r.stderr, "session="+holder)
	if err := held.Verify(t.Context()); !errors.Is(err, pglock.ErrLost) {
		t.Errorf("the holder was told %v", err)
	}
	wantCode(t, on(t, db, "terminate", "--holder", holder, "--yes").run(), 66)
}

// ownedByOther gives schema pglock to a role that is not trusted, and returns its name.
func ownedByOther(t *testing.T, db *testenv.DB) string {
	t.Helper()
	config, err := pgx.ParseConfig(db.Role(t, "migrator"))
	must.Succeed(t, err)
	execute(t, db, "ALTER SCHEMA pglock OWNER TO "+config.User)
	return config.User
}

// Locks in rows that could not be read may be waited for, and nothing says that all is well.
func TestLocksInRowsThatCannotBeReadAreSaidToBeUnknown(t *testing.T) {
	t.Parallel()
	db := testenv.Installed(t)
	owner := ownedByOther(t, db)
	contendedRow(t, db, owner)
	for name, server := range map[string]string{"without a grant": db.Role(t, "watcher"), "of another role": db.ConnString()} {
		run := func(args ...string) result {
			t.Helper()
			r := command(t, []string{"DATABASE_URL=" + server}, args...).run()
			wantCode(t, r, 0)
			return r
		}
		const unread = "locks in rows could not be read. No advisory locks held."
		wantText(t, run("monitor", "--once", "--here").stdout, unread)
		check := command(t, []string{"DATABASE_URL=" + server}, "check", "--here", "--critical", "0").run()
		wantCode(t, check, 3)
		wantText(t, check.stdout, "PGLOCK UNKNOWN - ", unread)
		var report doctor.Report
		must.Succeed(t, json.Unmarshal([]byte(command(t, []string{"DATABASE_URL=" + server}, "doctor", "-o", "json").run().stdout), &report))
		for _, check := range []string{"waits", "row-leases"} {
			i := slices.IndexFunc(report.Findings, func(f doctor.Finding) bool { return f.Check == check })
			if f := report.Findings[i]; f.Level != doctor.Note || !strings.HasPrefix(f.What, "it is unknown whether ") {
				t.Errorf("%s: %+v", name, f)
			}
		}
	}
}

// A command that is shown works as it is: it trusts those whom the one that shows it trusts.
// Not in parallel: events show the action that is best for all of the server.
func TestCommandsThatAreShownTrustTheSameOwner(t *testing.T) {
	db := testenv.Installed(t)
	owner := ownedByOther(t, db)
	held, holder := contendedRow(t, db, owner)
	shown := regexp.MustCompile(`pglock (terminate(?: --trust-owner \S+)? --holder ` + holder + `)`)
	var command []string
	for _, args := range [][]string{
		{"monitor", "--once", "--here"},
		{"check", "--here", "--critical", "0"},
		{"terminate", "--holder", holder, "--dry-run"},
		{"watch", "--interval", "200ms", "-o", "ndjson", "--here"},
	} {
		p := on(t, db, append(args, "--trust-owner", owner)...).start()
		if args[0] == "watch" {
			p.waitForOutput(" --holder ")
			p.signal(os.Interrupt)
		}
		r := p.end()
		found := shown.FindStringSubmatch(strings.Join(strings.Fields(strings.ReplaceAll(r.stdout, "\\\n", " ")), " "))
		if found == nil {
			t.Errorf("pglock %q shows no command:\n%s%s", args, r.stdout, r.stderr)
			continue
		}
		command = strings.Fields(found[1])
		wantCode(t, on(t, db, append(command, "--dry-run")...).run(), 0)
	}
	wantCode(t, on(t, db, append(command, "--yes")...).run(), 0)
	if err := held.Verify(t.Context()); !errors.Is(err, pglock.ErrLost) {
		t.Errorf("the holder was told %v", err)
	}
}

// What serves and shows no locks in rows says so: in its log once, and in a metric that an alert can watch.
func TestServeSaysThatItCannotReadLocksInRows(t *testing.T) {
	t.Parallel()
	db := testenv.Installed(t)
	owner := ownedByOther(t, db)
	contendedRow(t, db, owner)
	p := serveOn(t, db)
	const readable, missing = "pglock_row_locks_readable{", `: locks in rows: `
	if metrics := p.metrics(readable + `database="` + db.Name() + `"} 0`); strings.Contains(metrics, "\npglock_row_waiters{") {
		t.Errorf("they are exported:\n%s", metrics)
	}
	execute(t, db, "ALTER SCHEMA pglock OWNER TO CURRENT_USER")
	wantText(t, p.metrics(readable+`database="`+db.Name()+`"} 1`), "\npglock_row_waiters{")
	p.signal(os.Interrupt)
	r := p.end()
	wantCode(t, r, 0)
	wantText(t, r.stderr, missing, owner, "--trust-owner")
	if n := strings.Count(r.stderr, missing); n != 1 {
		t.Errorf("it is said %d times:\n%s", n, r.stderr)
	}
}
