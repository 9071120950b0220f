package once_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/migrations"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/once"
)

// The result is recorded long after the check, but in the same transaction: the schema cannot be dropped before it
// ends.
func TestOnceKeepsTheSchemaFromBeingReplaced(t *testing.T) {
	t.Parallel()
	db, pool := installed(t)
	conn := db.Connect(t)
	dropped := make(chan error, 1)
	must.Succeed(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		_, _, err := once.Result(t.Context(), tx, scope(t, "s"), "1", func(pgx.Tx) (int, error) {
			go func() {
				_, err := pool.Exec(bounded(t), "DROP SCHEMA pglock CASCADE")
				dropped <- err
			}()
			testenv.WaitUntil(t, "the schema is to be dropped", func() bool {
				var waits bool
				err := conn.QueryRow(t.Context(), waitsIn).Scan(&waits)
				return err == nil && waits
			})
			return 1, nil
		})
		return err
	}))
	must.Succeed(t, <-dropped)
	wantIs(t, do(t, pool, "s", "1"), pglock.ErrSchemaMissing)
	must.Succeed(t, migrations.Up(t.Context(), pool))
	must.Succeed(t, do(t, pool, "s", "1")) // another schema, which is also trusted
}
