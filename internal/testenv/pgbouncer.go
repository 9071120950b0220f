package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/supervise"
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

// Pooler is a PgBouncer to which faults can happen.
type Pooler struct{ bouncer *pgBouncer }

// ConnString leads through the pooler.
func (p *Pooler) ConnString() string { return p.bouncer.connString() }

// Signal sends a signal to the pooler's process.
func (p *Pooler) Signal(signal os.Signal) error { return p.bouncer.process.Signal(signal) }

// Restart kills the pooler's process and starts another one at the same address.
func (p *Pooler) Restart() error {
	if err := p.Signal(os.Kill); err != nil {
		return err
	}
	<-p.bouncer.process.Done()
	return p.bouncer.start()
}

// NewPooler is [PgBouncer] for tests that need the process.
func NewPooler(t testing.TB, db *DB, mode Pooling) *Pooler {
	t.Helper()
	program, err := FindPgBouncer()
	if err != nil {
		t.Fatal(err)
	}
	g, err := supervise.New("pglock-pgbouncer-")
	if err != nil {
		t.Fatal(err)
	}
	server := db.Config(t).ConnConfig
	bouncer := &pgBouncer{program: program, supervisor: g, server: server, roles: db.knownRoles(), mode: mode}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Errorf("stop PgBouncer: %v", err)
		}
	})
	if err := bouncer.startOnFreePort(); err != nil {
		t.Fatalf("start PgBouncer: %v", err)
	}
	return &Pooler{bouncer}
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
	if err != nil {
		t.Fatal(err)
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	for range sessions { // transactions at the same time have different sessions
		conn, err := pgx.ConnectConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		defer closeConn(t, conn)
		if _, err := conn.Exec(t.Context(), "BEGIN"); err != nil {
			t.Fatal(err)
		}
		defer func() { // otherwise PgBouncer would end the session
			if _, err := conn.Exec(context.Background(), "ROLLBACK"); err != nil {
				t.Error(err)
			}
		}()
		rows, err := conn.Query(t.Context(), selectTraces)
		if err != nil {
			t.Fatal(err)
		}
		left, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
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

func (db *DB) knownRoles() []role {
	db.mu.Lock()
	defer db.mu.Unlock()
	return append([]role(nil), db.roles...)
}

// FindPgBouncer returns the path of the program. It also looks in Debian's directory for it, which may not be on the
// PATH; the error says what to install.
func FindPgBouncer() (string, error) {
	for _, name := range []string{"pgbouncer", "/usr/sbin/pgbouncer"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("no pgbouncer on the PATH or in /usr/sbin: " +
		"install it (apt-get install pgbouncer, dnf install pgbouncer, brew install pgbouncer)")
}

// PoolSize is how many server sessions PgBouncer makes for a role in a database.
const PoolSize = 20

type pgBouncer struct {
	program    string
	supervisor *supervise.Supervisor
	server     *pgx.ConnConfig
	roles      []role
	mode       Pooling

	port    int
	process *supervise.Process
}

var errPortTaken = errors.New("the port is taken")

func (b *pgBouncer) startOnFreePort() (err error) {
	for {
		if b.port, err = supervise.FreePort(); err != nil {
			return err
		}
		if err = b.start(); !errors.Is(err, errPortTaken) {
			return err
		}
	}
}

func (b *pgBouncer) start() error {
	iniFile, err := b.configure()
	if err != nil {
		return err
	}
	process, err := b.supervisor.Start(b.supervisor.Command(context.Background(), b.program, iniFile), b.supervisor.Path("log"))
	if err != nil {
		return err
	}
	if err := b.awaitConnection(process); err != nil {
		return fmt.Errorf("%w; it said:\n%s", err, process.Said())
	}
	b.process = process
	return nil
}

// awaitConnection also checks the connection from PgBouncer to the server.
func (b *pgBouncer) awaitConnection(process *supervise.Process) error {
	var lastErr error
	poll(patience, func() bool {
		lastErr = connected(b.connString(), func(context.Context, *pgx.Conn) error { return nil })
		return lastErr == nil || process.Ended()
	})
	if lastErr == nil || !process.Ended() {
		return lastErr
	}
	if strings.Contains(process.Said(), "nowhere to listen on") {
		return errPortTaken
	}
	return process.Err()
}

func (b *pgBouncer) configure() (iniFile string, err error) {
	usersFile, err := b.supervisor.WriteFile("users.txt", b.users())
	if err != nil {
		return "", err
	}
	return b.supervisor.WriteFile("pgbouncer.ini", fmt.Sprintf(`
[databases]
%s = host=%s port=%d
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
pool_mode = %s
auth_type = scram-sha-256
auth_file = %s
max_client_conn = 1000
default_pool_size = %d
server_login_retry = 1
stats_users = %s
`, b.server.Database, b.server.Host, b.server.Port, b.port, b.mode, usersFile, PoolSize, b.server.User))
}

// users contains plain passwords: PgBouncer needs them to log in to the server with SCRAM.
func (b *pgBouncer) users() string {
	lines := fmt.Sprintf("%q %q\n", b.server.User, b.server.Password)
	for _, role := range b.roles {
		lines += fmt.Sprintf("%q %q\n", role.name, role.password)
	}
	return lines
}

func (b *pgBouncer) connString() string {
	return connString("127.0.0.1", uint16(b.port), b.server.Database, role{b.server.User, b.server.Password})
}
