package cli_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

// queueTable makes conn wait for a lock on a table until the test ends.
func queueTable(t *testing.T, db *testenv.DB, conn *pgx.Conn, statement string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = conn.Exec(ctx, statement) // ends with the test
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	pool := db.Pool(t)
	testenv.WaitUntil(t, statement+" waits", func() bool {
		var waits bool
		must.Succeed(t, pool.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND pid = $1)",
			int32(conn.PgConn().PID())).Scan(&waits))
		return waits
	})
}
