package monitor_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/monitordb"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/migrations"
	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
)

// plainRegistry is a tenant's registry: a proper table, surrounded by code that must not run. Some of its rows are false.
const plainRegistry = `
DROP VIEW pglock.names;
CREATE FUNCTION trap.fixed(anyelement) RETURNS anyelement LANGUAGE plpgsql IMMUTABLE
	AS 'BEGIN PERFORM trap.spring(); RETURN $1; END';
CREATE TABLE pglock.names (key bigint, name text, first_seen timestamptz DEFAULT trap.fixed(now()), CHECK (trap.spring()));
INSERT INTO pglock.names (key, name) VALUES
	(%[1]d, 'job'), (%[1]d, 'a lie'), (%[2]d, E'tab\t and \\ back\nslash'), (42, 'another lie');
CREATE INDEX ON pglock.names ((trap.fixed(1))) WHERE trap.fixed(true);
CREATE INDEX ON pglock.names (trap.fixed(key));
CREATE TABLE trap.child () INHERITS (pglock.names);
CREATE RULE r AS ON INSERT TO pglock.names DO ALSO SELECT trap.spring();
CREATE TRIGGER t BEFORE INSERT ON pglock.names FOR EACH ROW EXECUTE FUNCTION trap.trigger();
ALTER TABLE pglock.names ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY p ON pglock.names USING (trap.spring());
GRANT ALL ON pglock.names TO PUBLIC`

func createPlainRegistry(tenant *testenv.Tenant) {
	tenant.PlantSchema(migrations.Latest())
	tenant.Exec(fmt.Sprintf(plainRegistry, pglock.NewKey("job").Int64(), pglock.NewKey("tab\t and \\ back\nslash").Int64()))
}

func TestTrustAPlantedRegistryIsNotExecuted(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	tenant := db.Tenant(t)
	tenant.PlantSchema(migrations.Latest())
	session(t, db, lockNamed("job"))
	for _, mode := range queryModes {
		pool := poolIn(t, db, mode)
		s := take(t, pool)
		requireServerState(t, db, s)
		for _, want := range []string{"schema pglock", tenant.Name(), "not a plain table"} {
			if !strings.Contains(s.NamesMissing, want) {
				t.Errorf("%v: %q does not say %q", mode, s.NamesMissing, want)
			}
		}
		pool.Close()
	}
	tenant.WantNothingGained("after snapshots in all modes")
}

func TestTrustAPlainRegistryIsCopiedAndItsNamesAreChecked(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	tenant := db.Tenant(t)
	createPlainRegistry(tenant)
	holder := session(t, db, lockNamed("job"), lockNamed("tab\t and \\ back\nslash"), "SELECT pg_advisory_lock(42)")
	for _, mode := range queryModes {
		pool := poolIn(t, db, mode)
		conn, err := pgx.ConnectConfig(t.Context(), pool.Config().ConnConfig)
		must.Succeed(t, err)
		for _, from := range []monitor.DBTX{pool, conn} {
			s := take(t, from)
			if s.NamesMissing != "" {
				t.Errorf("%v: %s", mode, s.NamesMissing)
			}
			for _, name := range []string{"job", "tab\t and \\ back\nslash"} {
				if lock := find(t, s, pglock.NewKey(name)); !slices.Equal(lock.Names, []string{name}) {
					t.Errorf("%v: %q has the names %q", mode, name, lock.Names)
				}
			}
			if lock := find(t, s, pglock.Int64Key(42)); len(lock.Names) > 0 {
				t.Errorf("%v: a false name is shown: %q", mode, lock.Names)
			}
		}
		execute(t, conn, "BEGIN")
		if s := take(t, conn); !strings.Contains(s.NamesMissing, "transaction of the caller's") {
			t.Errorf("%v: in a transaction: %q", mode, s.NamesMissing)
		}
		if s := take(t, wrapper{pool}); !strings.Contains(s.NamesMissing, "behind a wrapper") {
			t.Errorf("%v: behind a wrapper: %q", mode, s.NamesMissing)
		}
		must.Succeed(t, conn.Close(context.Background()))
		pool.Close()
	}
	// A role that row security applies to gets an error, and does not execute the policy.
	watcher := connectAs(t, db.Role(t, "watcher"))
	execute(t, db.Connect(t), "ALTER ROLE "+quoted(watcher.Config().User)+" CREATEROLE")
	if s := take(t, watcher); !strings.Contains(s.NamesMissing, "row-level security") {
		t.Errorf("with row security: %q", s.NamesMissing)
	}
	must.Succeed(t, watcher.Close(context.Background()))
	must.Succeed(t, holder.Close(context.Background()))
	tenant.WantNothingGained("after snapshots in all modes")
}

func TestTrustARegistryThatIsTooLargeIsNotCopied(t *testing.T) {
	t.Parallel()
	wantNotCopied(t, "SELECT i, repeat('x', 1000) FROM generate_series(1, 20000) AS i", "are not copied")
}

// Compressed, the value takes a few pages; the server would send it as one message of 100 MB.
func TestTrustARegistryOfLongValuesIsNotCopied(t *testing.T) {
	t.Parallel()
	wantNotCopied(t, "VALUES (1, repeat('x', 100000000))", "longer values than names")
}

// renamer gives pglock.names another table when the monitor has looked at its size.
type renamer struct{ rename func() }

type lookedUp struct{}

func (r renamer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, query pgx.TraceQueryStartData) context.Context {
	return context.WithValue(ctx, lookedUp{}, strings.Contains(query.SQL, "pg_relation_size"))
}

func (r renamer) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	if looked, _ := ctx.Value(lookedUp{}).(bool); looked {
		r.rename()
	}
}

func TestTrustARowThatIsTooLongIsNotReadWhateverTheTablesSizeWas(t *testing.T) {
	db := testenv.Database(t)
	tenant := db.Tenant(t)
	createPlainRegistry(tenant)
	session(t, db, lockNamed("job"))
	tenant.Exec("CREATE TABLE pglock.long AS SELECT 1::bigint AS key, repeat('x', 100000000) AS name")
	config := db.Config(t)
	config.ConnConfig.Tracer = renamer{func() {
		tenant.Exec("ALTER TABLE pglock.names RENAME TO short; ALTER TABLE pglock.long RENAME TO names")
	}}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	must.Succeed(t, err)
	defer pool.Close()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s := take(t, pool)
	runtime.ReadMemStats(&after)
	if !strings.Contains(s.NamesMissing, "a row has") {
		t.Errorf("the reason is %q", s.NamesMissing)
	}
	if read := after.TotalAlloc - before.TotalAlloc; read > 50<<20 {
		t.Errorf("the snapshot took %d bytes of memory", read)
	}
}

// wantNotCopied takes a snapshot where a tenant's registry has the names that a statement returns.
func wantNotCopied(t *testing.T, names, why string) {
	t.Helper()
	db := testenv.Database(t)
	tenant := db.Tenant(t)
	createPlainRegistry(tenant)
	session(t, db, lockNamed("job"))
	tenant.Exec(`ALTER TABLE pglock.names DISABLE RULE r, DISABLE TRIGGER t;
		DROP INDEX pglock.names_fixed_idx; ALTER TABLE pglock.names DROP CONSTRAINT names_check;
		INSERT INTO pglock.names (key, name) ` + names)
	if s := take(t, db.Pool(t)); !strings.Contains(s.NamesMissing, why) {
		t.Errorf("the reason is %q", s.NamesMissing)
	}
}

// schemaReplacer replaces the schema after the monitor has checked its owner and before it reads names.
type schemaReplacer struct {
	monitor.DBTX
	replace func()
}

func (r schemaReplacer) SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults {
	for _, query := range batch.QueuedQueries {
		if query.SQL == monitordb.RegisteredNames {
			r.replace()
		}
	}
	return r.DBTX.SendBatch(ctx, batch)
}

func TestTrustASchemaThatIsReplacedAfterTheCheckIsNotUsed(t *testing.T) {
	t.Parallel()
	db := registered(t, "job")
	tenant := db.Tenant(t)
	holder := session(t, db, lockNamed("job"))
	pool := db.Pool(t)
	replaced := false
	s := take(t, schemaReplacer{pool, func() {
		execute(t, holder, "DROP SCHEMA pglock CASCADE")
		tenant.PlantSchema(migrations.Latest())
		replaced = true
	}})
	if !replaced || !strings.Contains(s.NamesMissing, "was replaced") {
		t.Errorf("replaced %t, the reason is %q", replaced, s.NamesMissing)
	}
	pool.Close()
	must.Succeed(t, holder.Close(context.Background()))
	tenant.WantNothingGained("after the schema was replaced")
}

// The tenant keeps renaming two schemas, one with a plain table and one with views.
func TestLongTrustOfSchemasThatAreRenamedAllTheTime(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	tenant := db.Tenant(t)
	tenant.PlantSchema(migrations.Latest())
	tenant.Exec("ALTER SCHEMA pglock RENAME TO views")
	createPlainRegistry(tenant)
	holder := session(t, db, lockNamed("job"))
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	renamer := connectAs(t, tenant.ConnString())
	wg.Go(func() {
		for ctx.Err() == nil {
			_, err := renamer.Exec(context.Background(), `
				BEGIN; ALTER SCHEMA pglock RENAME TO plain; ALTER SCHEMA views RENAME TO pglock; COMMIT;
				BEGIN; ALTER SCHEMA pglock RENAME TO views; ALTER SCHEMA plain RENAME TO pglock; COMMIT`)
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	pool := db.Pool(t)
	for range 100 {
		take(t, pool)
	}
	cancel()
	wg.Wait()
	pool.Close()
	must.Succeed(t, holder.Close(context.Background()))
	tenant.WantNothingGained("after snapshots while schemas were renamed")
}

// If every unqualified name resolves to the tenant's objects first, the modes that do not prepare statements work. In
// the others the server may fail to prepare them. None executes the tenant's code.
func TestTrustOnASearchPathOfTraps(t *testing.T) {
	t.Parallel()
	db := registered(t, "job")
	tenant := db.Tenant(t)
	holder := session(t, db, lockNamed("job"))
	tenant.PlantSearchPath()
	for _, mode := range queryModes {
		pool := poolIn(t, db, mode)
		for _, from := range []monitor.DBTX{pool, wrapper{pool}} {
			s, err := monitor.Take(t.Context(), from)
			unprepared := mode == pgx.QueryExecModeExec || mode == pgx.QueryExecModeSimpleProtocol
			if err != nil && unprepared {
				t.Errorf("%v: %v", mode, err)
			}
			if err != nil {
				if !strings.Contains(err.Error(), "search_path=pg_catalog,public") {
					t.Errorf("%v: it does not say what to do: %v", mode, err)
				}
				continue
			}
			if lock := find(t, s, pglock.NewKey("job")); !slices.Equal(lock.Names, []string{"job"}) {
				t.Errorf("%v: the names are %q: %s", mode, lock.Names, s.NamesMissing)
			}
		}
		pool.Close()
	}
	must.Succeed(t, holder.Close(context.Background()))
	tenant.WantNothingGained("after snapshots in all modes")
}

// pgx prepares statements before their transaction pins the search_path, and keeps the types of their parameters. A type of
// the tenant's can be a domain, whose CHECK is executed when a parameter is received.
func TestLongTrustParametersHaveNoTypesOfTheSearchPath(t *testing.T) {
	t.Parallel()
	db := registered(t, "job")
	tenant := db.Tenant(t)
	holder := session(t, db, lockNamed("job"))
	target := inspect(t, db.Pool(t), pidOf(holder))
	tenant.PlantTypes()
	for _, mode := range queryModes {
		pool := poolIn(t, db, mode)
		_, taken := monitor.Take(t.Context(), pool)
		_, sent := monitor.Cancel(t.Context(), pool, target)
		t.Logf("%v: take: %v; send: %v", mode, taken, sent) // fails where a result has a type of the tenant's
		pool.Close()
	}
	must.Succeed(t, holder.Close(context.Background()))
	tenant.WantNothingGained("after statements with parameters in all modes")
}

func TestTrustOfAnotherRolesRegistry(t *testing.T) {
	t.Parallel()
	db := testenv.Installed(t)
	owner, admin := connectAs(t, db.Role(t, "owner")), db.Connect(t)
	register(t, db, "job")
	execute(t, admin, lockNamed("job"), "ALTER SCHEMA pglock OWNER TO "+quoted(owner.Config().User))
	for what, options := range map[string][]monitor.Option{
		"copied": nil, "asked": {monitor.WithTrustedOwner(owner.Config().User)},
	} {
		s, err := monitor.Take(t.Context(), db.Pool(t), options...)
		must.Succeed(t, err)
		if lock := find(t, s, pglock.NewKey("job")); s.NamesMissing != "" || lock.Key != "job" {
			t.Errorf("%s: the lock is shown as %q: %s", what, lock.Key, s.NamesMissing)
		}
	}
	// Watch does not copy it for each snapshot.
	emptied := false
	for s, err := range monitor.NewWatcher(db.Pool(t)).Watch(t.Context(), 1) {
		must.Succeed(t, err)
		if lock := find(t, s, pglock.NewKey("job")); lock.Key != "job" {
			t.Errorf("after the registry was emptied: %v: the lock is shown as %q", emptied, lock.Key)
		}
		if emptied {
			break
		}
		execute(t, admin, "DELETE FROM pglock.names")
		emptied = true
	}
	_, err := monitor.Take(t.Context(), db.Pool(t), monitor.WithTrustedOwner("no such role"))
	if err == nil || !strings.Contains(err.Error(), `"no such role"`) {
		t.Errorf("a role that does not exist: %v", err)
	}
}
