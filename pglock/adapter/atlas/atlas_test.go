package atlas_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"ariga.io/atlas/sql/migrate"
	"ariga.io/atlas/sql/postgres"
	"ariga.io/atlas/sql/schema"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/adapter/atlas"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// process returns what each migrating process has: a driver of Atlas whose locks are pglock's.
func process(t *testing.T, db *testenv.DB) migrate.Driver {
	t.Helper()
	locker, err := pglock.New(db.Pool(t))
	must.Succeed(t, err)
	t.Cleanup(func() { must.Succeed(t, locker.Close(context.Background())) })
	pool := stdlib.OpenDB(*db.Config(t).ConnConfig)
	t.Cleanup(func() { must.Succeed(t, pool.Close()) })
	inner, err := postgres.Open(pool)
	must.Succeed(t, err)
	driver, err := atlas.WithLocker(inner, locker, "schema of shop: ")
	must.Succeed(t, err)
	if _, ok := driver.(migrate.StmtScanner); !ok {
		t.Error("the driver's other methods are hidden")
	}
	return driver
}

func TestAtlasLockExcludesOtherProcesses(t *testing.T) {
	db := testenv.Database(t)
	one, other := process(t, db), process(t, db)
	unlock, err := one.Lock(t.Context(), "atlas_migrate_execute", -1)
	must.Succeed(t, err)
	for _, timeout := range []time.Duration{0, 20 * time.Millisecond} {
		_, err := other.Lock(t.Context(), "atlas_migrate_execute", timeout)
		if !errors.Is(err, schema.ErrLocked) || !errors.Is(err, pglock.ErrNotAcquired) {
			t.Errorf("Lock within %v: the error is %v", timeout, err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := other.Lock(ended, "atlas_migrate_execute", -1); !errors.Is(err, context.Canceled) || errors.Is(err, schema.ErrLocked) {
		t.Errorf("Lock with a context that has ended: the error is %v", err)
	}
	must.Succeed(t, unlock())
	if err := unlock(); !errors.Is(err, pglock.ErrUnlocked) {
		t.Errorf("the error of a second unlock is %v", err)
	}
	unlock, err = other.Lock(t.Context(), "atlas_migrate_execute", time.Minute)
	must.Succeed(t, err)
	must.Succeed(t, unlock())
}

// With Atlas's own lock CREATE INDEX CONCURRENTLY could wait for the statement in which another process waits. Here
// waiting processes have no snapshot.
func TestAtlasCreatesAnIndexConcurrentlyBesideProcessesThatWait(t *testing.T) {
	db := testenv.Database(t)
	migrating := process(t, db)
	_, err := migrating.ExecContext(t.Context(), "CREATE TABLE invoices (id bigint)")
	must.Succeed(t, err)
	unlock, err := migrating.Lock(t.Context(), "atlas_migrate_execute", -1)
	must.Succeed(t, err)
	waited := make(chan error, 2)
	for range cap(waited) {
		driver := process(t, db)
		go func() {
			unlock, err := driver.Lock(t.Context(), "atlas_migrate_execute", -1)
			if err == nil {
				err = unlock()
			}
			waited <- err
		}()
	}
	db.WaitForWaiters(t, cap(waited))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err = migrating.ExecContext(ctx, "CREATE INDEX CONCURRENTLY invoices_id ON invoices (id)")
	must.Succeed(t, err)
	must.Succeed(t, unlock())
	for range cap(waited) {
		must.Succeed(t, <-waited)
	}
}

func TestAtlasUnlockReportsALoss(t *testing.T) {
	db := testenv.Database(t)
	unlock, err := process(t, db).Lock(t.Context(), "atlas_migrate_execute", -1)
	must.Succeed(t, err)
	_, err = db.Pool(t).Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_locks
		WHERE locktype = 'advisory' AND granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
	must.Succeed(t, err)
	testenv.WaitUntil(t, "the sessions have ended", func() bool { return len(db.AdvisoryLocks(t)) == 0 })
	if err := unlock(); !errors.Is(err, pglock.ErrLost) {
		t.Errorf("the error is %v", err)
	}
}

func TestAtlasMisuseIsAnError(t *testing.T) {
	if _, err := atlas.NewLocker(nil, ""); err == nil {
		t.Error("NewLocker takes no Locker")
	}
	if _, err := atlas.WithLocker(nil, nil, ""); err == nil {
		t.Error("WithLocker takes no driver")
	}
}
