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
