package testenv

import (
	"context"
	"fmt"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

// RequireStandby lets the commits on a server wait for a standby that does not exist, and returns when they do: the server
// takes a new setting over some time after it was told to. The function that it returns ends that.
func RequireStandby(t testing.TB, db *DB) (withdraw func()) {
	t.Helper()
	admin, probe := db.Connect(t), db.Connect(t)
	set := func(standby string) {
		for _, sql := range []string{fmt.Sprintf("ALTER SYSTEM SET synchronous_standby_names = '%s'", standby), "SELECT pg_reload_conf()"} {
			_, err := admin.Exec(context.Background(), sql)
			must.Succeed(t, err)
		}
	}
	set("missing")
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-over:
				return
			default: // an error does no harm: the test waits until a commit waits
				_, _ = probe.Exec(context.Background(), "SELECT pg_logical_emit_message(true, 'probe', '')")
			}
		}
	}()
	WaitUntil(t, "commits wait for the standby", func() bool {
		return must.One[bool](t, admin, `SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE pid = $1 AND wait_event = 'SyncRep')`, probe.PgConn().PID())
	})
	close(over)
	_, err := admin.Exec(t.Context(), "SELECT pg_cancel_backend($1)", probe.PgConn().PID())
	must.Succeed(t, err)
	<-ended
	return func() { set("") }
}
