package testenv

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/pgserver"
)

// DB is a test's own database. Its methods may be called concurrently.
type DB struct {
	host host
	name string

	mu    sync.Mutex
	roles []role
}

type role struct{ name, password string }

// Database makes a new, empty database on the shared server. When the test ends, after the cleanups registered
// since, the database is dropped; the test fails if an advisory lock, a wait for one, a session or a prepared
// transaction is left in it.
func Database(t testing.TB) *DB {
	t.Helper()
	on, err := shared.host()
	if err != nil {
		t.Fatal(err)
	}
	return newDatabase(t, on, emptyDatabase)
}

// Installed is [Database] with schema pglock, whose objects belong to the owner of the database.
func Installed(t testing.TB) *DB {
	t.Helper()
	on, err := shared.host()
	if err != nil {
		t.Fatal(err)
	}
	installed, err := shared.installed()
	if err != nil {
		t.Fatalf("make the database that has the schema: %v", err)
	}
	return newDatabase(t, on, installed)
}

// On is [Database] on the test's own server. If that is down when the test ends, nothing is checked.
func On(t testing.TB, server *pgserver.Server) *DB {
	t.Helper()
	return newDatabase(t, hostOn(server), emptyDatabase)
}

// emptyDatabase cannot be connected to. One that can, such as template1, cannot be copied while it has sessions.
const emptyDatabase = "template0"

func newDatabase(t testing.TB, on host, template string) *DB {
	t.Helper()
	db := &DB{host: on, name: databaseName(t.Name())}
	if err := db.asAdmin(execute(on.copyOf(template, db.name))); err != nil {
		t.Fatalf("make a database for the test on %s: %v", on.what, err)
	}
	t.Cleanup(func() { db.cleanUp(t) })
	return db
}

var unnameable = regexp.MustCompile(`[^a-z0-9]+`)

// databaseName makes a unique name that needs no quotes and contains the test's name, within the 63 bytes that
// PostgreSQL keeps.
func databaseName(test string) string {
	const longest = 40
	test = unnameable.ReplaceAllString(strings.ToLower(test), "_")
	return "pglock_" + test[:min(len(test), longest)] + "_" + suffix()
}

func suffix() string { return strings.ToLower(rand.Text()[:12]) }

// Name returns the name of the database.
func (db *DB) Name() string { return db.name }

// ConnString returns a connection string of the role that owns the database.
func (db *DB) ConnString() string { return withDatabase(db.host.admin.target, db.name) }

// withDatabase changes the database in a connection string of either form. Of two equal keywords the last one
// counts.
func withDatabase(connString, name string) string {
	target, err := url.Parse(connString)
	if err != nil || target.Scheme == "" {
		return connString + " dbname=" + name
	}
	target.Path = "/" + name
	return target.String()
}

// Config returns the configuration of a pool for the database. The caller may change it. Its sessions are named after
// the test.
func (db *DB) Config(t testing.TB) *pgxpool.Config {
	t.Helper()
	config, err := pgxpool.ParseConfig(db.ConnString())
	if err != nil {
		t.Fatal(err)
	}
	config.ConnConfig.RuntimeParams["application_name"] = t.Name()
	return config
}

// Pool returns a pool of connections to the database that is closed when the test ends.
func (db *DB) Pool(t testing.TB) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.NewWithConfig(context.Background(), db.Config(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// Connect returns a connection to the database that is closed when the test ends.
func (db *DB) Connect(t testing.TB) *pgx.Conn {
	t.Helper()
	conn, err := pgx.ConnectConfig(context.Background(), db.Config(t).ConnConfig)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeConn(t, conn) })
	return conn
}

// closeConn ignores errors: the test may have broken the connection.
func closeConn(t testing.TB, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := conn.Close(ctx); err != nil && ctx.Err() != nil {
		t.Errorf("close a connection: %v", err)
	}
}

// Knows reports whether the server has a setting: some came with later versions.
func (db *DB) Knows(t testing.TB, setting string) (known bool) {
	t.Helper()
	row := db.Connect(t).QueryRow(t.Context(), "SELECT current_setting($1, true) IS NOT NULL", setting)
	if err := row.Scan(&known); err != nil {
		t.Fatal(err)
	}
	return known
}

// Role makes a role that can log in and has only the rights of PUBLIC, and returns its connection string. Its name
// begins with prefix. The role is dropped after the database, with everything that it owned there.
func (db *DB) Role(t testing.TB, prefix string) (connString string) {
	t.Helper()
	made := role{name: prefix + "_" + suffix(), password: rand.Text()}
	create := fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD '%s'", identifier(made.name), made.password)
	if err := db.asAdmin(execute(create)); err != nil {
		t.Fatalf("make role %s: %v", made.name, err)
	}
	db.mu.Lock()
	db.roles = append(db.roles, made)
	db.mu.Unlock()
	return db.connStringAs(t, made)
}

func (db *DB) connStringAs(t testing.TB, r role) string {
	t.Helper()
	config := db.Config(t).ConnConfig
	return connString(config.Host, config.Port, db.name, r)
}

// connString returns a URL for a server on loopback or nearby, with TLS if available. A host that is a directory fits
// into a URL only as a parameter.
func connString(host string, port uint16, database string, r role) string {
	target := url.URL{Scheme: "postgres", User: url.UserPassword(r.name, r.password), Path: "/" + database}
	query := url.Values{"sslmode": {"prefer"}}
	if strings.HasPrefix(host, "/") {
		query.Set("host", host)
		query.Set("port", fmt.Sprint(port))
	} else {
		target.Host = net.JoinHostPort(host, fmt.Sprint(port))
	}
	target.RawQuery = query.Encode()
	return target.String()
}

func identifier(name string) string { return pgx.Identifier{name}.Sanitize() }

// asAdmin runs do on a connection to another database of the server, so that it is not a session in the test's
// database, and does not depend on one that may be broken.
func (db *DB) asAdmin(do func(context.Context, *pgx.Conn) error) error { return db.host.admin.do(do) }
