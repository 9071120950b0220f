package testenv

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/pgserver"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
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
	must.Succeed(t, err)
	return newDatabase(t, on, emptyDatabase)
}

// Installed is [Database] with schema pglock, whose objects belong to the owner of the database.
func Installed(t testing.TB) *DB {
	t.Helper()
	on, err := shared.host()
	must.Succeed(t, err)
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
	db, err := create(t.Name(), on, template)
	must.Succeed(t, err)
	t.Cleanup(func() {
		if err := db.cleanUp(); err != nil {
			t.Errorf("%v", err)
		}
	})
	return db
}

func create(test string, on host, template string) (*DB, error) {
	db := &DB{host: on, name: databaseName(test)}
	if err := on.copyDatabase(template, db.name); err != nil {
		return nil, fmt.Errorf("make a database for the test on %s: %w", on.what, err)
	}
	return db, nil
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

// ConnString returns the URL of the role that owns the database.
func (db *DB) ConnString() string { return withDatabase(db.host.admin.target, db.name) }

func withDatabase(connString, name string) string {
	return changed(connString, func(target *url.URL) { target.Path = "/" + name })
}

// changed changes a URL. Of one that is wrong, the driver says why.
func changed(connString string, change func(target *url.URL)) string {
	target, err := url.Parse(connString)
	if err != nil {
		return connString
	}
	change(target)
	return target.String()
}

// Config returns the configuration of a pool for the database. The caller may change it. Its sessions are named after
// the test.
func (db *DB) Config(t testing.TB) *pgxpool.Config {
	t.Helper()
	config, err := pgxpool.ParseConfig(db.ConnString())
	must.Succeed(t, err)
	config.ConnConfig.RuntimeParams["application_name"] = t.Name()
	return config
}

// Pool returns a pool of connections to the database that is closed when the test ends.
func (db *DB) Pool(t testing.TB) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.NewWithConfig(context.Background(), db.Config(t))
	must.Succeed(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// Connect returns a connection to the database that is closed when the test ends.
func (db *DB) Connect(t testing.TB) *pgx.Conn {
	t.Helper()
	conn, err := pgx.ConnectConfig(context.Background(), db.Config(t).ConnConfig)
	must.Succeed(t, err)
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

// Role makes a role that can log in and has only the rights of PUBLIC, and returns its connection string. Its name
// begins with prefix. The role is dropped after the database, with everything that it owned there.
func (db *DB) Role(t testing.TB, prefix string) (connString string) {
	t.Helper()
	made := role{name: prefix + "_" + suffix(), password: rand.Text()}
	create := fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD '%s'", identifier(made.name), pgserver.Verifier(made.password))
	if err := db.asAdmin(execute(create)); err != nil {
		t.Fatalf("make role %s: %v", made.name, err)
	}
	db.mu.Lock()
	db.roles = append(db.roles, made)
	db.mu.Unlock()
	return changed(db.ConnString(), func(target *url.URL) { target.User = url.UserPassword(made.name, made.password) })
}

func identifier(name string) string { return pgx.Identifier{name}.Sanitize() }

// asAdmin runs do on a connection to another database of the server, so that it is not a session in the test's
// database, and does not depend on one that may be broken.
func (db *DB) asAdmin(do func(context.Context, *pgx.Conn) error) error { return db.host.admin.do(do) }
