package cli_test

import (
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

// When a pile-up has taken all connections of a server, the view has one left for the signal that ends it.
func TestMonitorTheViewKeepsAConnectionForSignals(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	pool := db.Pool(t)
	sessions := func() (n int) {
		must.Succeed(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity "+
			"WHERE application_name = 'pglock monitor' AND datname = current_database()").Scan(&n))
		return n
	}
	p := on(t, db, "monitor", "--interval", "1h").onTerminal()
	testenv.WaitUntil(t, "the view has one for snapshots and one for signals", func() bool { return sessions() >= 2 })
	p.types("q")
	wantCode(t, p.end(), 0)
}
