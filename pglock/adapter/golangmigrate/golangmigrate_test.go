package golangmigrate_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	migratepgx "github.com/golang-migrate/migrate/v4/database/pgx/v5"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/adapter/golangmigrate"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// The second migration continues only when the other two processes wait for an advisory lock, so every run meets the
// case of golang-migrate#960; the third builds its index while they wait.
var files = fstest.MapFS{
	"1_shop.up.sql": {Data: []byte(`create table invoices (id bigint); create table runs (step int)`)},
	"2_wait.up.sql": {Data: []byte(`do $$ begin
		insert into runs values (2);
		for i in 1..3000 loop
			exit when (select count(*) from pg_catalog.pg_locks where locktype = 'advisory' and not granted
				and database = (select oid from pg_catalog.pg_database where datname = current_database())) >= 2;
			perform pg_catalog.pg_sleep(0.01);
		end loop; end $$`)},
	"3_index.up.sql": {Data: []byte(`create index concurrently invoices_id on invoices (id)`)},
}

// opener opens golang-migrate's driver. If WithInstance fails, it leaves its connection open until the test ends.
func opener(t *testing.T, db *testenv.DB) func() (database.Driver, error) {
	remember := stdlib.OptionAfterConnect(func(_ context.Context, conn *pgx.Conn) error {
		t.Cleanup(func() { _ = conn.Close(context.Background()) }) // nearly always closed already
		return nil
	})
	return func() (database.Driver, error) {
		pool := stdlib.OpenDB(*db.Config(t).ConnConfig, remember)
		driver, err := migratepgx.WithInstance(pool, &migratepgx.Config{})
		if err != nil {
			return nil, errors.Join(err, pool.Close())
		}
		return driver, nil
	}
}

// up migrates like a separate process.
func up(t *testing.T, open func() (database.Driver, error)) (err error) {
	t.Helper()
	driver, err := open()
	if err != nil {
		return err
	}
	source, err := iofs.New(files, ".")
	if err != nil {
		return errors.Join(err, driver.Close())
	}
	m, err := migrate.NewWithInstance("iofs", source, "pgx5", driver)
	if err != nil {
		return errors.Join(err, driver.Close())
	}
	defer func() {
		sourceErr, driverErr := m.Close()
		err = errors.Join(err, sourceErr, driverErr)
	}()
	if err := m.Up(); err != nil && !errors.Is(err, migrate.ErrNoChange) {
		return err
	}
	return nil
}

// wrapped opens under a lock, with a separate Locker that has connected.
func wrapped(t *testing.T, db *testenv.DB, opts ...pglock.LockOption) func() (database.Driver, error) {
	locker := newLocker(t, db)
	must.Succeed(t, locker.Ping(t.Context()))
	return func() (database.Driver, error) {
		return golangmigrate.Open(t.Context(), locker, pglock.NewKey("migrations"), opener(t, db), opts...)
	}
}

func newLocker(t *testing.T, db *testenv.DB) *pglock.Locker {
	t.Helper()
	locker, err := pglock.NewWithConfig(db.Config(t))
	return must.Closing(t, locker, err)
}

// all runs the processes at once and returns the error of each.
func all(t *testing.T, processes ...func() (database.Driver, error)) []error {
	t.Helper()
	errs := make([]error, len(processes))
	var running sync.WaitGroup
	for i, open := range processes {
		running.Go(func() { errs[i] = up(t, open) })
	}
	running.Wait()
	return errs
}

func runs(t *testing.T, db *testenv.DB) (n int) {
	t.Helper()
	must.Succeed(t, db.Pool(t).QueryRow(t.Context(), "select count(*) from runs").Scan(&n))
	return n
}

func TestMigrateIndexConcurrentlyWorksWhenAllAreWrapped(t *testing.T) {
	db := testenv.Database(t)
	for i, err := range all(t, wrapped(t, db), wrapped(t, db), wrapped(t, db)) {
		if err != nil {
			t.Errorf("process %d: %v", i, err)
		}
	}
	if n := runs(t, db); n != 1 {
		t.Errorf("the migration ran %d times", n)
	}
}

// Without this package the same migrations fail, which shows that the test above provokes the failure.
func TestMigrateIndexConcurrentlyFailsWithTheNativeLockAlone(t *testing.T) {
	db := testenv.Database(t)
	failed := 0
	for _, err := range all(t, opener(t, db), opener(t, db), opener(t, db)) {
		if err != nil {
			failed++
		}
	}
	if failed == 0 {
		t.Error("all three processes succeeded with golang-migrate's own lock; the package is not needed any more")
	}
}

func TestMigrateExcludesUnwrappedProcessesToo(t *testing.T) {
	db := testenv.Database(t)
	ended := make(chan []error, 1)
	go func() { ended <- all(t, opener(t, db), wrapped(t, db), wrapped(t, db)) }()
	select {
	case errs := <-ended:
		t.Logf("the processes ended with %v", errs) // a deadlock that PostgreSQL resolved is allowed, a hang is not
	case <-time.After(2 * time.Minute):
		t.Fatal("a process hangs")
	}
	if n := runs(t, db); n > 1 {
		t.Errorf("the migration ran %d times", n)
	}
}

func TestMigrateWaitIsBounded(t *testing.T) {
	db := testenv.Database(t)
	locker := newLocker(t, db)
	held, err := locker.Lock(t.Context(), pglock.NewKey("migrations"))
	must.Succeed(t, err)
	defer held.Unlock(t.Context())
	_, err = wrapped(t, db, pglock.MaxWait(50*time.Millisecond))()
	if !errors.Is(err, pglock.ErrNotAcquired) {
		t.Errorf("the error is %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := golangmigrate.Open(ctx, newLocker(t, db), pglock.NewKey("migrations"), opener(t, db)); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context the error is %v", err)
	}
}

// A process without this package holds golang-migrate's own lock when ours is locked, or opened.
func TestMigrateNativeWaitIsBoundedAndGivenBack(t *testing.T) {
	db := testenv.Database(t)
	other, err := opener(t, db)()
	must.Succeed(t, err)
	defer other.Close()
	must.Succeed(t, other.Lock())
	golangmigrate.ShortenNativeWait(t, 100*time.Millisecond)
	if _, err := wrapped(t, db)(); !errors.Is(err, database.ErrLocked) {
		t.Errorf("opening beside it: %v", err)
	}
	must.Succeed(t, other.Unlock())

	golangmigrate.ShortenNativeWait(t, 5*time.Second)
	driver, err := wrapped(t, db, pglock.MaxWait(time.Minute))()
	must.Succeed(t, err)
	must.Succeed(t, other.Lock())
	if err := driver.Lock(); !errors.Is(err, database.ErrLocked) {
		t.Errorf("locking beside it: %v", err)
	}
	if err := driver.Unlock(); !errors.Is(err, database.ErrNotLocked) {
		t.Errorf("unlocking what was abandoned: %v", err)
	}
	must.Succeed(t, other.Unlock())
	// The abandoned wait now gets the lock and releases it, so other can lock again.
	must.Succeed(t, other.Lock())
	must.Succeed(t, other.Unlock())
	for driver.Lock() != nil { // until the abandoned wait has ended
		if t.Context().Err() != nil {
			t.Fatal("the lock cannot be taken again")
		}
	}
	if err := errors.Join(driver.Unlock(), driver.Close()); err != nil {
		t.Error(err)
	}
}

func TestMigrateRefusesToWriteAfterTheLockWasLost(t *testing.T) {
	db := testenv.Database(t)
	driver, err := wrapped(t, db)()
	must.Succeed(t, err)
	endLockSessions(t, db)
	testenv.WaitUntil(t, "Run says that the lock is lost", func() bool { return errors.Is(driver.Run(noMigration{}), pglock.ErrLost) })
	for name, err := range map[string]error{
		"Lock": driver.Lock(), "SetVersion": driver.SetVersion(9, false), "Drop": driver.Drop(), "Close": driver.Close(),
	} {
		if !errors.Is(err, pglock.ErrLost) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// noMigration is an empty migration.
type noMigration struct{}

func (noMigration) Read([]byte) (int, error) { return 0, errEmpty }

var errEmpty = errors.New("there is nothing to read")

// endLockSessions terminates the sessions that hold advisory locks.
func endLockSessions(t *testing.T, db *testenv.DB) {
	t.Helper()
	_, err := db.Pool(t).Exec(t.Context(), `select pg_catalog.pg_terminate_backend(l.pid)
		from pg_catalog.pg_locks as l join pg_catalog.pg_database as d on d.oid = l.database
		where l.locktype = 'advisory' and l.granted and d.datname = current_database()`)
	must.Succeed(t, err)
}

func TestMigrateRefusesKeysOfGolangMigrate(t *testing.T) {
	db := testenv.Database(t)
	name, err := database.GenerateAdvisoryLockId(db.Name(), "public", "schema_migrations")
	must.Succeed(t, err)
	key, err := pglock.ParseKey("@" + name)
	must.Succeed(t, err)
	if _, err := golangmigrate.Open(t.Context(), newLocker(t, db), key, opener(t, db)); !errors.Is(err, pglock.ErrInvalidKey) {
		t.Errorf("the error is %v", err)
	}
	_, err = golangmigrate.Open(t.Context(), newLocker(t, db), pglock.Key{}, opener(t, db))
	if !errors.Is(err, pglock.ErrInvalidKey) || strings.Contains(err.Error(), "golang-migrate's own lock") {
		t.Errorf("the error of the zero key is %v", err)
	}
}

func TestMigrateMisuseIsAnError(t *testing.T) {
	db := testenv.Database(t)
	locker, key := newLocker(t, db), pglock.NewKey("migrations")
	for name, open := range map[string]func() (database.Driver, error){
		"no locker":   func() (database.Driver, error) { return golangmigrate.Open(t.Context(), nil, key, opener(t, db)) },
		"no function": func() (database.Driver, error) { return golangmigrate.Open(t.Context(), locker, key, nil) },
		"nil option": func() (database.Driver, error) {
			return golangmigrate.Open(t.Context(), locker, key, opener(t, db), nil)
		},
		"zero key": func() (database.Driver, error) {
			return golangmigrate.Open(t.Context(), locker, pglock.Key{}, opener(t, db))
		},
		"negative":     wrapped(t, db, pglock.MaxWait(-1)),
		"no driver":    func() (database.Driver, error) { return golangmigrate.Open(t.Context(), locker, key, nothing) },
		"broken inner": func() (database.Driver, error) { return golangmigrate.Open(t.Context(), locker, key, broken) },
	} {
		if driver, err := open(); err == nil || driver != nil {
			t.Errorf("%s: %v, %v", name, driver, err)
		}
	}
	if held, err := locker.TryLock(t.Context(), key); err != nil {
		t.Errorf("the lock is still held: %v", err)
	} else if err := held.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
}

func nothing() (database.Driver, error) { return nil, nil }

func broken() (database.Driver, error) { return nil, &url.Error{Op: "open", Err: errEmpty} }
