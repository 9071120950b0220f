package migrations_test

import (
	"strings"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/migrations"
)

const (
	openLease  = `SELECT pglock.lease_open(gen_random_uuid(), 3600000, 'billing', 'web-1', 4711)`
	takeLease  = `INSERT INTO pglock.leases (space, number, holder, generation, since) SELECT 1, 42, id, 1, now() FROM pglock.holders`
	shareLease = `INSERT INTO pglock.lease_shares (space, number, holder, generation, attempt, since)
		SELECT 1, 42, id, 1, 1, now() FROM pglock.holders`
)

func wantRefusedForLocksInRows(t *testing.T, err error) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), `: 1 by process `) || !strings.Contains(err.Error(), `("billing", process 4711 on "web-1")`) {
		t.Errorf("Down returned %v", err)
	}
}

// A process that holds locks in rows would go on while others take them in a new schema.
func TestDownRefusesWhileLocksInRowsAreHeld(t *testing.T) {
	t.Parallel()
	for name, take := range map[string]string{"exclusively": takeLease, "shared": shareLease} {
		for over, end := range map[string]string{
			"the process has ended":  "UPDATE pglock.holders SET ended = true",
			"its lease is over":      "UPDATE pglock.holders SET expires = clock_timestamp()",
			"it has given them back": "UPDATE pglock.leases SET holder = NULL",
		} {
			if name == "shared" && over == "it has given them back" {
				end = "DELETE FROM pglock.lease_shares"
			}
			_, pool := installed(t)
			execute(t, pool, openLease)
			execute(t, pool, take)
			wantRefusedForLocksInRows(t, migrations.Down(t.Context(), pool))
			wantVersion(t, pool, migrations.Latest())
			execute(t, pool, end)
			if err := migrations.Down(t.Context(), pool); err != nil {
				t.Errorf("held %s, when %s: %v", name, over, err)
			}
		}
	}
}

// A lock in a row that is granted before Down has locked the others out is seen.
func TestDownSeesALockInARowThatIsGrantedMeanwhile(t *testing.T) {
	t.Parallel()
	db, pool := installed(t)
	execute(t, pool, openLease)
	taker := db.Connect(t)
	execute(t, taker, "BEGIN")
	execute(t, taker, "SELECT FROM pglock.holders FOR KEY SHARE") // as every call does first
	execute(t, taker, takeLease)
	result := make(chan error, 1)
	go func() { result <- migrations.Down(t.Context(), pool) }()
	testenv.WaitUntil(t, "Down waits for the call", func() bool {
		return must.One[bool](t, taker, `SELECT EXISTS (SELECT FROM pg_locks AS l, pg_database AS d
			WHERE NOT l.granted AND l.database = d.oid AND d.datname = current_database())`)
	})
	execute(t, taker, "COMMIT")
	wantRefusedForLocksInRows(t, <-result)
	wantVersion(t, pool, migrations.Latest())
}
