package once_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/migrations"
	"github.com/pglock-toolkit/pglock/pglock"
)

// A program can log in as one role and, with SET LOCAL ROLE, act as a customer's role in each transaction. As that role
// it may use the customer's own schema, if the customer is a member of all other roles of the login. The result of that
// check does not apply to the other roles of the connection.
func TestOnceDoesNotTrustForOneRoleWhatAnotherTrusts(t *testing.T) {
	db := testenv.Database(t)
	tenant := db.Tenant(t)
	tenant.PlantSchema(migrations.Latest())
	tenant.Exec(plantOnce)
	login, other := connect(t, db.Role(t, "login")), connect(t, db.Role(t, "other"))
	role, victim := login.Config().User, other.Config().User
	execute(t, db.Pool(t), fmt.Sprintf("ALTER DATABASE %s OWNER TO CURRENT_USER; GRANT %[2]s, %[3]s TO %[4]s; GRANT %[3]s TO %[2]s",
		db.Name(), tenant.Name(), victim, role))
	as := func(who string) error {
		return pgx.BeginFunc(t.Context(), login, func(tx pgx.Tx) error {
			if who != role {
				execute(t, tx, "SET LOCAL ROLE "+who)
			}
			return scope(t, "s").Tx(t.Context(), tx, who)
		})
	}
	wantIs(t, as(victim), pglock.ErrUntrusted)
	must.Succeed(t, as(tenant.Name()))
	wantIs(t, as(victim), pglock.ErrUntrusted)
	wantIs(t, as(role), pglock.ErrUntrusted)
}

func connect(t *testing.T, connString string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), connString)
	must.Succeed(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

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
