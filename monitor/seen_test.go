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
func TestNamesSeenInQueriesAreRemembered(t *testing.T) {
	db := testenv.Database(t)
	key := pglock.NewKey("invoice:42")
	holder := session(t, db, lockNamed("invoice:42")+" /* invoice:42 */")
	remembering, other := monitor.RememberNames(), monitor.RememberNames()
	shown := func(options ...monitor.Option) string {
		t.Helper()
		s, err := monitor.Take(t.Context(), db.Pool(t), options...)
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
	number := fmt.Sprintf("@%d", key.Int64())
	for _, options := range [][]monitor.Option{nil, {other}} {
		if got := shown(options...); got != number {
			t.Errorf("where the name was not seen the key is %q", got)
		}
	}
	execute(t, holder, "SELECT pg_advisory_unlock_all()", lockNamed("invoice:42"))
	if got := shown(remembering); got != "invoice:42" {
		t.Errorf("when it is taken again the key is %q", got)
	}
}

func TestNamesWatchRemembersNames(t *testing.T) {
	db := testenv.Database(t)
	holder := session(t, db, lockNamed("invoice:42")+" /* invoice:42 */")
	snapshots := 0
	for s, err := range monitor.Watch(t.Context(), db.Pool(t), shortInterval) {
		must.Succeed(t, err)
		if lock := find(t, s, pglock.NewKey("invoice:42")); lock.Key != "invoice:42" {
			t.Errorf("in snapshot %d the key is %q", snapshots, lock.Key)
		}
		if snapshots++; snapshots == 3 {
			break
		}
		execute(t, holder, "SELECT 1")
	}
}
