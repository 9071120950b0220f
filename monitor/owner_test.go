package monitor_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

// The owner of the database can keep a catalog locked that only the look at the owners reads. There are no names then.
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
	if !strings.Contains(s.NamesMissing, "look up the owners in schema pglock: canceling statement due to lock timeout") {
		t.Errorf("the reason is %q", s.NamesMissing)
	}
}
