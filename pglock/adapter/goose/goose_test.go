package goose_test

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5/stdlib"
	pressly "github.com/pressly/goose/v3"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/adapter/goose"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// The second migration continues only when the other two processes wait for an advisory lock; the third builds its
// index while they wait.
var files = fstest.MapFS{
	"1_shop.sql": {Data: []byte("-- +goose Up\ncreate table invoices (id bigint);\ncreate table runs (step int);\n")},
	"2_wait.sql": {Data: []byte(`-- +goose Up
-- +goose StatementBegin
do $$ begin
	insert into runs values (2);
	for i in 1..3000 loop
		exit when (select count(*) from pg_catalog.pg_locks where locktype = 'advisory' and not granted
			and database = (select oid from pg_catalog.pg_database where datname = current_database())) >= 2;
		perform pg_catalog.pg_sleep(0.01);
	end loop; end $$;
-- +goose StatementEnd
`)},
	"3_index.sql": {Data: []byte("-- +goose NO TRANSACTION\n-- +goose Up\ncreate index concurrently invoices_id on invoices (id);\n")},
}

var key = pglock.NewKey("migrations")

func newLocker(t *testing.T, db *testenv.DB) *pglock.Locker {
	t.Helper()
	locker, err := pglock.NewWithConfig(db.Config(t))
	return must.Closing(t, locker, err)
}

func newDB(t *testing.T, db *testenv.DB) *sql.DB {
	t.Helper()
	conn := stdlib.OpenDB(*db.Config(t).ConnConfig)
	t.Cleanup(func() { must.Succeed(t, conn.Close()) })
	return conn
}

func newProvider(t *testing.T, db *sql.DB, opts ...pressly.ProviderOption) *pressly.Provider {
	t.Helper()
	provider, err := pressly.NewProvider(pressly.DialectPostgres, db, files, opts...)
	must.Succeed(t, err)
	return provider
}

// migrate lets three processes migrate at once and checks that one of them did.
func migrate(t *testing.T, up func(db *testenv.DB) error) {
	t.Helper()
	db := testenv.Database(t)
	errs := make([]error, 3)
	var running sync.WaitGroup
	for i := range errs {
		running.Go(func() { errs[i] = up(db) })
	}
	running.Wait()
	must.Succeed(t, errors.Join(errs...))
	var runs int
	var index sql.NullString
	row := db.Pool(t).QueryRow(t.Context(), "select count(*), to_regclass('invoices_id')::text from runs")
	must.Succeed(t, row.Scan(&runs, &index))
	if runs != 1 || !index.Valid {
		t.Errorf("the migration ran %d times, and the index is %q", runs, index.String)
	}
}

func TestGooseIndexConcurrentlyWorksWithALocker(t *testing.T) {
	migrate(t, func(db *testenv.DB) error {
		locker, err := goose.NewLocker(newLocker(t, db), key)
		if err != nil {
			return err
		}
		_, err = newProvider(t, newDB(t, db), pressly.WithLocker(locker)).Up(t.Context())
		return err
	})
}

func TestGooseUnlockReportsALoss(t *testing.T) {
	db := testenv.Database(t)
	locker, err := goose.NewLocker(newLocker(t, db), key)
	must.Succeed(t, err)
	must.Succeed(t, locker.Lock(t.Context(), nil))
	must.Succeed(t, endLockSessions(t.Context(), t, db))
	if err := locker.Unlock(t.Context(), nil); !errors.Is(err, pglock.ErrLost) {
		t.Errorf("the error is %v", err)
	}
	if err := locker.Unlock(t.Context(), nil); !errors.Is(err, pglock.ErrUnlocked) {
		t.Errorf("the error of a second Unlock is %v", err)
	}
}

func TestGooseMisuseIsAnError(t *testing.T) {
	if _, err := goose.NewLocker(nil, key); err == nil {
		t.Error("NewLocker takes no Locker")
	}
}

// endLockSessions terminates the sessions that hold advisory locks, and returns when they have ended.
func endLockSessions(ctx context.Context, t *testing.T, db *testenv.DB) error {
	_, err := db.Pool(t).Exec(ctx, `select pg_catalog.pg_terminate_backend(l.pid)
		from pg_catalog.pg_locks as l join pg_catalog.pg_database as d on d.oid = l.database
		where l.locktype = 'advisory' and l.granted and d.datname = current_database()`)
	testenv.WaitUntil(t, "the sessions have ended", func() bool { return len(db.AdvisoryLocks(t)) == 0 })
	return err
}
