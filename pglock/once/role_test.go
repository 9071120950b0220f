package once_test

import (
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
)

// The check waits for the lock on a schema that is being dropped. Its error is one of pglock's.
func TestOnceMeetsASchemaThatIsBeingDropped(t *testing.T) {
	db, pool := installed(t)
	must.Succeed(t, do(t, pool, "s", "1"))
	conn := db.Connect(t)
	execute(t, conn, "BEGIN; DROP SCHEMA pglock CASCADE")
	result := make(chan error, 1)
	go func() { result <- do(t, pool, "s", "2") }()
	testenv.WaitUntil(t, "the use waits for the schema", func() bool {
		var waits bool
		err := conn.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)").Scan(&waits)
		return err == nil && waits
	})
	execute(t, conn, "COMMIT")
	wantIs(t, <-result, pglock.ErrUntrusted) // another schema may have taken its place
	wantIs(t, do(t, pool, "s", "2"), pglock.ErrSchemaMissing)
}
