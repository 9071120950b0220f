package testenv

import (
	"context"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/pgserver"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

// Pooling is PgBouncer's pool_mode: when it takes a server connection away from a client.
type Pooling string

// The modes that matter for locks.
const (
	TransactionPooling Pooling = "transaction"
	SessionPooling     Pooling = "session"
)

// PoolerVariable is the environment variable with a connection string through another pooler, in front of the server that
// [DatabaseVariable] names. It takes the place of a PgBouncer in [Pooled].
const PoolerVariable = "PGLOCK_TEST_POOLER_URL"

// Pooled returns a connection string of the owner of db through a pooler of transactions.
func Pooled(t testing.TB, db *DB) (connString string) {
	t.Helper()
	if external := os.Getenv(PoolerVariable); external != "" {
		return withDatabase(external, db.name)
	}
	return PgBouncer(t, db, TransactionPooling)
}

// PgBouncer starts a real PgBouncer in front of db and returns a connection string that goes through it. It knows the
// database's owner and the roles that [DB.Role] has made so far, and stops when the test ends.
func PgBouncer(t testing.TB, db *DB, mode Pooling) (connString string) {
	t.Helper()
	return NewPooler(t, db, mode).ConnString()
}

// NewPooler is [PgBouncer] for tests that need the process.
func NewPooler(t testing.TB, db *DB, mode Pooling) *pgserver.Pooler {
	t.Helper()
	pooler, err := pgserver.StartPooler(context.Background(), pgserver.PoolerOptions{
		Server: db.Config(t).ConnConfig, Users: db.passwords(), Mode: string(mode), Size: PoolSize,
	})
	must.Succeed(t, err)
	t.Cleanup(func() {
		if err := pooler.Stop(); err != nil {
			t.Errorf("stop PgBouncer: %v", err)
		}
	})
	return pooler
}

// PooledTraces returns what earlier clients of a PgBouncer in front of db have left in its server sessions, where later
// clients would find it: settings (other than those that PgBouncer itself sets for each client), locks, prepared statements,
// cursors, channels that a session listens to, and temporary objects. db must have no other sessions.
func PooledTraces(t testing.TB, db *DB, through string) (traces []string) {
	t.Helper()
	var sessions int
	err := db.asAdmin(func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE datname = $1", db.name).Scan(&sessions)
	})
	if err != nil || sessions > PoolSize {
		t.Fatalf("count the sessions, of which PgBouncer has at most %d: %d, %v", PoolSize, sessions, err)
	}
	config, err := pgx.ParseConfig(through)
	must.Succeed(t, err)
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	for range sessions { // transactions at the same time have different sessions
		conn, err := pgx.ConnectConfig(t.Context(), config)
		must.Succeed(t, err)
		defer closeConn(t, conn)
		_, err = conn.Exec(t.Context(), "BEGIN")
		must.Succeed(t, err)
		defer func() { // otherwise PgBouncer would end the session
			if _, err := conn.Exec(context.Background(), "ROLLBACK"); err != nil {
				t.Error(err)
			}
		}()
		rows, err := conn.Query(t.Context(), selectTraces)
		must.Succeed(t, err)
		left, err := pgx.CollectRows(rows, pgx.RowTo[string])
		must.Succeed(t, err)
		traces = append(traces, left...)
	}
	return traces
}

const selectTraces = `
SELECT pg_catalog.format('setting %s = %s', name, setting) FROM pg_catalog.pg_settings
WHERE source = 'session' AND name NOT IN ('application_name', 'client_encoding', 'DateStyle', 'standard_conforming_strings', 'TimeZone')
UNION ALL SELECT pg_catalog.format('lock %s %s', classid, objid) FROM pg_catalog.pg_locks
WHERE locktype = 'advisory' AND pid = pg_catalog.pg_backend_pid()
UNION ALL SELECT pg_catalog.format('prepared statement %s', name) FROM pg_catalog.pg_prepared_statements
UNION ALL SELECT pg_catalog.format('cursor %s', name) FROM pg_catalog.pg_cursors WHERE is_holdable
UNION ALL SELECT pg_catalog.format('channel %s', channel) FROM pg_catalog.pg_listening_channels() AS channel
UNION ALL SELECT pg_catalog.format('temporary object %s', name) FROM (
    SELECT relname, relnamespace FROM pg_catalog.pg_class
    UNION ALL SELECT proname, pronamespace FROM pg_catalog.pg_proc
    UNION ALL SELECT typname, typnamespace FROM pg_catalog.pg_type) AS object (name, schema)
WHERE schema = pg_catalog.pg_my_temp_schema()`

func (db *DB) passwords() map[string]string {
	db.mu.Lock()
	defer db.mu.Unlock()
	of := map[string]string{}
	for _, role := range db.roles {
		of[role.name] = role.password
	}
	return of
}

// PoolSize is how many server sessions PgBouncer makes for a role in a database.
const PoolSize = 20
