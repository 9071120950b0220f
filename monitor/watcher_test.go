package monitor_test

import (
	"fmt"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
)

// A lock keeps the name from its statement while the session runs other statements.
func TestWatcherRemembersNamesSeenInQueries(t *testing.T) {
	db := testenv.Database(t)
	key := pglock.NewKey("invoice:42")
	holder := session(t, db, lockNamed("invoice:42")+" /* invoice:42 */")
	remembering, other := monitor.NewWatcher(db.Pool(t)), monitor.NewWatcher(db.Pool(t))
	shown := func(w *monitor.Watcher) string {
		t.Helper()
		s, err := w.Take(t.Context())
		must.Succeed(t, err)
		return find(t, s, key).Key
	}
	if got := shown(remembering); got != "invoice:42" {
		t.Fatalf("while its statement is there the key is %q", got)
	}
	execute(t, holder, "SELECT 1")
	if got := shown(remembering); got != "invoice:42" {
		t.Errorf("after its statement the key is %q", got)
	}
	if got := shown(other); got != rawKey("invoice:42") {
		t.Errorf("where the name was not seen the key is %q", got)
	}
}

// It asks the registry for those keys only of which it does not know a name: a name that is registered after its key was
// locked is found, and what has a name keeps it for a while.
func TestWatcherAsksTheRegistryOnce(t *testing.T) {
	db := testenv.Installed(t)
	first, second := pglock.NewKey("first"), pglock.NewKey("second")
	registrar := session(t, db, "SELECT pglock.register('first')")
	session(t, db, "SELECT pg_advisory_lock(key) FROM unnest(ARRAY[pglock.key('fi' || 'rst'), pglock.key('sec' || 'ond')]) AS key")
	watcher := monitor.NewWatcher(db.Pool(t))
	shown := func(w *monitor.Watcher) (names [2]string) {
		t.Helper()
		s, err := w.Take(t.Context())
		must.Succeed(t, err)
		if s.NamesMissing != "" {
			t.Errorf("names are missing: %s", s.NamesMissing)
		}
		return [2]string{find(t, s, first).Key, find(t, s, second).Key}
	}
	if got := shown(watcher); got != [2]string{"first", fmt.Sprintf("@%d", second.Int64())} {
		t.Fatalf("at first the keys are %q", got)
	}
	execute(t, registrar, "SELECT pglock.register('second')")
	if got := shown(watcher); got != [2]string{"first", "second"} {
		t.Errorf("a name that is registered later is not found: %q", got)
	}
	execute(t, registrar, "TRUNCATE pglock.names")
	if got := shown(watcher); got != [2]string{"first", "second"} {
		t.Errorf("the registry was asked again: %q", got)
	}
	if got := shown(monitor.NewWatcher(db.Pool(t))); got[0] == "first" || got[1] == "second" {
		t.Errorf("names are kept for others: %q", got)
	}
}
