package monitor_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/monitordb"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/migrations"
	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
)

// Neither the names nor the locks in rows of another role are read.
func TestTrustAPlantedRegistryIsNotExecuted(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	tenant := db.Tenant(t)
	tenant.PlantSchema(migrations.Latest())
	tenant.Exec(`CREATE VIEW pglock.row_locks AS
		SELECT 1::smallint AS space, 1::bigint AS number, trap.spring() AS granted, now() AS since, 1::bigint AS generation,
			'exclusive' AS mode, 'x' AS holder, 'x' AS role, 'x' AS application, 'x' AS host, 1 AS pid, now() AS process_since,
			now() AS expires, 'x' AS name;
		GRANT SELECT ON pglock.row_locks TO PUBLIC`)
	session(t, db, lockNamed("job"))
	for _, mode := range queryModes {
		pool := poolIn(t, db, mode)
		s := take(t, pool)
		requireServerState(t, db, s)
		for _, want := range []string{"pglock.names was not read", "schema pglock", tenant.Name()} {
			if !strings.Contains(s.NamesMissing, want) {
				t.Errorf("%v: %q does not say %q", mode, s.NamesMissing, want)
			}
		}
		if len(inRows(s)) != 0 || !strings.Contains(s.RowLocksMissing, tenant.Name()) {
			t.Errorf("%v: %+v, %q", mode, inRows(s), s.RowLocksMissing)
		}
		pool.Close()
	}
	tenant.WantNothingGained("after snapshots in all modes")
}

// schemaReplacer replaces the schema after the monitor has checked its owner and before it reads names.
type schemaReplacer struct {
	pglock.DB
	replace func()
}

func (r schemaReplacer) SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults {
	for _, query := range batch.QueuedQueries {
		if query.SQL == monitordb.RegisteredNames {
			r.replace()
		}
	}
	return r.DB.SendBatch(ctx, batch)
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
		s, err := monitor.Take(t.Context(), pool)
		pool.Close()
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
	if s := take(t, db.Pool(t)); !strings.Contains(s.NamesMissing, owner.Config().User) || find(t, s, pglock.NewKey("job")).Key == "job" {
		t.Errorf("the registry of a role that is not trusted is read: %q", s.NamesMissing)
	}
	s, err := monitor.Take(t.Context(), db.Pool(t), monitor.WithTrustedOwner(owner.Config().User))
	must.Succeed(t, err)
	if lock := find(t, s, pglock.NewKey("job")); s.NamesMissing != "" || lock.Key != "job" {
		t.Errorf("the lock is shown as %q: %s", lock.Key, s.NamesMissing)
	}
	_, err = monitor.Take(t.Context(), db.Pool(t), monitor.WithTrustedOwner("no such role"))
	if err == nil || !strings.Contains(err.Error(), `"no such role"`) {
		t.Errorf("a role that does not exist: %v", err)
	}
}
