package monitor_test

import (
	"fmt"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
)

// Snapshots that share names ask the registry for those keys only of which they do not know one: a name that is registered
// after its key was locked is found, and what has a name keeps it for a while.
func TestNamesOfTheRegistryAreAskedForOnce(t *testing.T) {
	db := testenv.Database(t)
	migrate(t, db)
	first, second := pglock.NewKey("first"), pglock.NewKey("second")
	registrar := session(t, db, "SELECT pglock.register('first')")
	session(t, db, "SELECT pg_advisory_lock(key) FROM unnest(ARRAY[pglock.key('fi' || 'rst'), pglock.key('sec' || 'ond')]) AS key")
	remembering := monitor.RememberNames()
	shown := func(options ...monitor.Option) (names [2]string) {
		t.Helper()
		s, err := monitor.Take(t.Context(), db.Pool(t), options...)
		must.Succeed(t, err)
		if s.NamesMissing != "" {
			t.Errorf("names are missing: %s", s.NamesMissing)
		}
		return [2]string{find(t, s, first).Key, find(t, s, second).Key}
	}
	if got := shown(remembering); got != [2]string{"first", fmt.Sprintf("@%d", second.Int64())} {
		t.Fatalf("at first the keys are %q", got)
	}
	execute(t, registrar, "SELECT pglock.register('second')")
	if got := shown(remembering); got != [2]string{"first", "second"} {
		t.Errorf("a name that is registered later is not found: %q", got)
	}
	execute(t, registrar, "TRUNCATE pglock.names")
	if got := shown(remembering); got != [2]string{"first", "second"} {
		t.Errorf("the registry was asked again: %q", got)
	}
	if got := shown(); got[0] == "first" || got[1] == "second" {
		t.Errorf("names are kept for others: %q", got)
	}
}
