package view

import (
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/monitor"
)

func TestEndPreparedSaysWhereToRunIt(t *testing.T) {
	now := time.Now()
	for want, session := range map[string]monitor.Session{
		"ROLLBACK PREPARED 'it''s'; -- in database shop\\n": {GID: "it's", PreparedAt: &now, Database: "shop\n"},
		"ROLLBACK PREPARED 'it''s'":                         {GID: "it's", PreparedAt: &now},
		"":                                                  {PID: 7, Database: "shop"},
	} {
		if got := EndPrepared(session); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestInDatabaseNamesTheDatabaseOnce(t *testing.T) {
	unnamed := monitor.OtherLock{Type: "relation", Relation: 16597, Database: "other"}
	for want, wait := range map[string]monitor.Wait{
		"relation 16597 in database other": {Waiter: &monitor.Waiter{Session: monitor.Session{Database: "other"}}, Other: &unnamed},
		"@7 in database shop":              {Waiter: &monitor.Waiter{Session: monitor.Session{Database: "other"}}, Lock: &monitor.Lock{Key: "@7", Database: "shop"}},
	} {
		if got := InDatabase(wait); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
