package monitor_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/migrations"
	"github.com/pglock-toolkit/pglock/pglock"
)

// A role without special rights may have others elsewhere. The monitor executes nothing of the owner of the database.
func TestTrustOfTheDatabasesOwnerIsNotNeeded(t *testing.T) {
	t.Parallel()
	for name, plant := range map[string]func(*testenv.Tenant){
		"a view":  func(tenant *testenv.Tenant) { tenant.PlantSchema(migrations.Latest()) },
		"a table": createPlainRegistry,
	} {
		t.Run(name, func(t *testing.T) {
			db := testenv.Database(t)
			tenant := db.Tenant(t)
			plant(tenant)
			session(t, db, lockNamed("job"), lockNamed("a"))
			ops := connectAs(t, db.Role(t, "ops"))
			s := take(t, ops)
			requireServerState(t, db, s)
			if s.NamesMissing == "" {
				t.Errorf("the names were read: %+v", s.Locks)
			}
			must.Succeed(t, ops.Close(t.Context()))
			tenant.WantNothingGained("after a snapshot")
		})
	}
}

// The owner of the database can keep a catalog locked that only the look at the owners reads. Names are copied then.
func TestTrustThatCannotBeCheckedCostsNoSnapshot(t *testing.T) {
	t.Parallel()
	db := registered(t, "job")
	session(t, db, lockNamed("job"))
	pool := poolIn(t, db, pgx.QueryExecModeExec) // does not wait for the catalog before it has limits
	conn, err := pool.Acquire(t.Context())
	must.Succeed(t, err)
	defer conn.Release()
	session(t, db, "BEGIN", "LOCK TABLE pg_catalog.pg_inherits IN ACCESS EXCLUSIVE MODE")
	s := take(t, conn)
	requireServerState(t, db, s)
	if lock := find(t, s, pglock.NewKey("job")); s.NamesMissing != "" || lock.Key != "job" {
		t.Errorf("the lock is shown as %q: %s", lock.Key, s.NamesMissing)
	}
	execute(t, conn, "BEGIN")
	s = take(t, conn)
	if !strings.Contains(s.NamesMissing, "look up the owners in schema pglock: canceling statement due to lock timeout") {
		t.Errorf("the reason is %q", s.NamesMissing)
	}
	execute(t, conn, "ROLLBACK")
}
