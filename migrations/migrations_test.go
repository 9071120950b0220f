package migrations_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/pgserver"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/migrations"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

func TestUpInstallsOnceAndDownLeavesNoTrace(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	pool, conn := db.Pool(t), db.Connect(t)
	before := catalog(t, conn)
	for range 2 {
		wantMissing(t, pool, db)
		for range 2 {
			mustUp(t, pool)
			wantVersion(t, pool, migrations.Latest())
		}
		must.Succeed(t, migrations.Down(t.Context(), pool))
		if after := catalog(t, conn); after != before {
			t.Errorf("Down left\n%s", after)
		}
		if err := migrations.Down(t.Context(), pool); err != nil {
			t.Errorf("Down without a schema: %v", err)
		}
	}
}

func wantMissing(t *testing.T, pool *pgxpool.Pool, db *testenv.DB) {
	t.Helper()
	_, err := migrations.Version(t.Context(), pool)
	if !errors.Is(err, driver.ErrSchemaMissing) {
		t.Fatalf("Version without a schema: %v", err)
	}
	wantMentioned(t, err, db.Name(), "pglock migrate up")
}

// wantMentioned checks the text of an error.
func wantMentioned(t *testing.T, err error, what ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error; want one that mentions %q", what)
	}
	for _, w := range what {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q is not mentioned in: %v", w, err)
		}
	}
}

func TestUpDoesNotDependOnTheSearchPathOrOtherSettings(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	config := db.Config(t)
	for name, value := range map[string]string{
		"search_path":                   "",
		"default_transaction_isolation": "serializable",
		"default_transaction_read_only": "on",
		"standard_conforming_strings":   "off",
		"quote_all_identifiers":         "on",
		"DateStyle":                     "German",
	} {
		config.ConnConfig.RuntimeParams[name] = value
	}
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	must.Succeed(t, err)
	defer pool.Close()
	mustUp(t, pool)
	wantVersion(t, pool, migrations.Latest())
}

func TestAForeignSchemaIsRefusedAndLeftAlone(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string]string{
		"empty": `CREATE SCHEMA pglock`,
		"an extension": `CREATE SCHEMA pglock;
			CREATE FUNCTION pglock.key(text) RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint'`,
		"the table of a migration tool": `CREATE SCHEMA pglock;
			CREATE TABLE pglock.schema_migrations (version bigint NOT NULL PRIMARY KEY);
			INSERT INTO pglock.schema_migrations VALUES (1)`,
		"a function of another kind": `CREATE SCHEMA pglock;
			CREATE FUNCTION pglock.toolkit_version() RETURNS text LANGUAGE sql AS 'SELECT 99999999999999999999::text'`,
		"our comment": `CREATE SCHEMA pglock;
			COMMENT ON SCHEMA pglock IS 'Advisory locks by name (github.com/pglock-toolkit/pglock)'`,
	} {
		t.Run(name, func(t *testing.T) {
			db := testenv.Database(t)
			pool, conn := db.Pool(t), db.Connect(t)
			execute(t, conn, sql)
			before := catalog(t, conn)
			_, versionErr := migrations.Version(t.Context(), pool)
			for _, err := range []error{
				migrations.Up(t.Context(), pool), migrations.Down(t.Context(), pool), versionErr,
			} {
				if !errors.Is(err, migrations.ErrForeignSchema) || errors.Is(err, driver.ErrSchemaMissing) {
					t.Errorf("a foreign schema: %v", err)
				}
				wantMentioned(t, err, db.Name())
			}
			if after := catalog(t, conn); after != before {
				t.Errorf("the catalog was\n%s\nand is\n%s", before, after)
			}
		})
	}
}

func TestDownNamesWhatOthersMadeAndChangesNothing(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ sql, object string }{
		"a table in the schema":      {"CREATE TABLE pglock.mine (id int)", "table pglock.mine"},
		"an overload":                {"CREATE FUNCTION pglock.key(int) RETURNS int LANGUAGE sql AS 'SELECT 1'", "pglock.key"},
		"a view on one of its views": {"CREATE VIEW public.mine AS SELECT key FROM pglock.locks", "view public.mine"},
		"a default from its sequence": {"CREATE TABLE public.mine (fence bigint DEFAULT nextval('pglock.fence'))",
			"column fence of table public.mine"},
	} {
		t.Run(name, func(t *testing.T) {
			db, pool := installed(t)
			conn := db.Connect(t)
			execute(t, conn, test.sql)
			before := catalog(t, conn)
			wantMentioned(t, migrations.Down(t.Context(), pool), test.object)
			if after := catalog(t, conn); after != before {
				t.Errorf("the catalog was\n%s\nand is\n%s", before, after)
			}
		})
	}
}

func TestANewerSchemaIsFineForUpAndRefusedByDown(t *testing.T) {
	t.Parallel()
	_, pool := installed(t)
	execute(t, pool, "CREATE OR REPLACE FUNCTION pglock.toolkit_version() RETURNS bigint LANGUAGE sql IMMUTABLE AS 'SELECT 2'")
	mustUp(t, pool)
	wantVersion(t, pool, migrations.Latest()+1)
	wantMentioned(t, migrations.Down(t.Context(), pool),
		fmt.Sprintf("has version %d", migrations.Latest()+1), fmt.Sprintf("supports %d", migrations.Latest()))
	wantVersion(t, pool, migrations.Latest()+1)
}

// A dump without data, as tools keep it to make test databases, and test suites that truncate all tables.
func TestTheSchemaNeedsNoDataOfItsTables(t *testing.T) {
	t.Parallel()
	_, pool := installed(t)
	const truncate = `DO $$ BEGIN EXECUTE (SELECT 'TRUNCATE ' || string_agg(oid::regclass::text, ', ') FROM pg_class
		WHERE relnamespace = 'pglock'::regnamespace AND relkind IN ('r', 'p')); END $$`
	for range 2 {
		execute(t, pool, truncate)
		if first := must.One[string](t, pool, "SELECT outcome FROM pglock.once('a', gen_random_uuid()::text)"); first != "first" {
			t.Errorf("once says %s", first)
		}
		execute(t, pool, "SELECT pglock.once_record('a', gen_random_uuid()::text, NULL, NULL), pglock.fence_draw(1)")
		mustUp(t, pool)
		wantVersion(t, pool, migrations.Latest())
	}
	if err := migrations.Down(t.Context(), pool); err != nil {
		t.Errorf("Down of an empty schema: %v", err)
	}
}

func TestAnUnreachableServerIsAnErrorWithoutThePassword(t *testing.T) {
	t.Parallel()
	pool := poolAs(t, "postgres://migrator:s3cret@127.0.0.1:1/db?sslmode=disable")
	_, versionErr := migrations.Version(t.Context(), pool)
	for _, err := range []error{migrations.Up(t.Context(), pool), migrations.Down(t.Context(), pool), versionErr} {
		wantMentioned(t, err, "127.0.0.1", "migrator")
		if strings.Contains(err.Error(), "s3cret") {
			t.Errorf("the password is in: %v", err)
		}
	}
}

func TestUpNeedsThePrimary(t *testing.T) {
	t.Parallel()
	primary := testenv.NewServer(t, nil)
	standby, err := primary.Standby(t.Context())
	must.Succeed(t, err)
	t.Cleanup(func() {
		if err := standby.Stop(); err != nil {
			t.Error(err)
		}
	})
	onPrimary := poolAs(t, primary.ConnString(pgserver.Superuser))
	onStandby := poolAs(t, standby.ConnString(pgserver.Superuser))

	if err := migrations.Up(t.Context(), onStandby); !errors.Is(err, driver.ErrStandby) {
		t.Errorf("Up on a hot standby: %v", err)
	}
	mustUp(t, onPrimary)
	testenv.WaitUntil(t, "the schema has reached the standby", func() bool {
		version, err := migrations.Version(t.Context(), onStandby)
		return err == nil && version == migrations.Latest()
	})
	for name, migrate := range map[string]func(context.Context, *pgxpool.Pool, ...migrations.Option) error{
		"Up": migrations.Up, "Down": migrations.Down,
	} {
		if err := migrate(t.Context(), onStandby); !errors.Is(err, driver.ErrStandby) {
			t.Errorf("%s on a hot standby with the schema: %v", name, err)
		}
	}
}

// PgBouncer gives one server session to one client after another, so a statement that the first one has prepared
// conflicts with the second's.
func TestUpWorksThroughATransactionPooler(t *testing.T) {
	t.Parallel()
	pooler := testenv.PgBouncer(t, testenv.Database(t), testenv.TransactionPooling)
	for range 2 {
		pool := poolAs(t, pooler)
		mustUp(t, pool)
		wantVersion(t, pool, migrations.Latest())
		must.Succeed(t, migrations.Down(t.Context(), pool))
	}
}

// wantState checks the SQLSTATE of the server's error.
func wantState(t *testing.T, err error, state string) {
	t.Helper()
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); !ok || pgErr.Code != state {
		t.Errorf("want SQLSTATE %s, got: %v", state, err)
	}
}
