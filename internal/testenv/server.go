package testenv

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/pgserver"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/migrations"
)

// DatabaseVariable is the environment variable with the connection string of a PostgreSQL for the tests. Its role must
// be able to create databases and roles and to read pg_stat_activity.
const DatabaseVariable = "PGLOCK_TEST_DATABASE_URL"

// TemplateVariable is the environment variable with the directory of a cluster that the servers of tests are copies of
// (see [pgserver.MakeTemplate]), which saves each of them half a second of processor time.
const TemplateVariable = "PGLOCK_TEST_CLUSTER"

// InstalledVariable is the environment variable with the name of a database that has the schema, on the server that
// [DatabaseVariable] names. Such a server is ours: see [Share].
const InstalledVariable = "PGLOCK_TEST_INSTALLED"

// settings are the settings of every server that this package starts.
var settings = map[string]string{
	"max_connections":           "300",
	"max_locks_per_transaction": "256",
	"max_prepared_transactions": "20",
}

// host is a server that tests can have databases on.
type host struct {
	what   string           // for messages
	admin  *admin           // connects to a database where others can be created
	server *pgserver.Server // nil if the environment names the server
}

func hostOn(server *pgserver.Server) host {
	return host{
		what:   server.Binaries().String(),
		admin:  &admin{target: server.ConnString(pgserver.Superuser)},
		server: server,
	}
}

// copyDatabase makes a database by copying files, which costs the server half as much as writing them to its log too. Before
// version 15 there is no other way, and no word for it.
func (h host) copyDatabase(template, name string) error {
	return h.admin.do(func(ctx context.Context, conn *pgx.Conn) error {
		statement := "CREATE DATABASE " + name + " TEMPLATE " + template
		if !strings.HasPrefix(conn.PgConn().ParameterStatus("server_version"), "14") {
			statement += " STRATEGY file_copy"
		}
		_, err := conn.Exec(ctx, statement)
		return err
	})
}

// NewServer starts a PostgreSQL server for the test, which can restart, break and pause it, optionally with additional
// settings. It is stopped when the test ends.
func NewServer(t testing.TB, more map[string]string) *pgserver.Server {
	t.Helper()
	server, err := startServer(more)
	must.Succeed(t, err)
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	return server
}

func startServer(more map[string]string) (*pgserver.Server, error) {
	all := maps.Clone(settings)
	maps.Copy(all, more)
	return pgserver.Start(context.Background(), pgserver.Options{Settings: all, Template: os.Getenv(TemplateVariable)})
}

// shared is the server that all tests of a binary have their databases on.
var shared sharedServer

type sharedServer struct {
	once sync.Once
	on   host
	err  error

	template sync.Once
	name     string // of the database that has the schema
	failed   error
}

func (s *sharedServer) host() (host, error) {
	s.once.Do(func() { s.on, s.err = startShared() })
	return s.on, s.err
}

func startShared() (on host, err error) {
	if external := os.Getenv(DatabaseVariable); external != "" {
		admin, err := pooled(external)
		return host{what: "the server that " + DatabaseVariable + " names", admin: admin}, err
	}
	server, err := startServer(nil)
	if err != nil {
		return host{}, fmt.Errorf("%w\n(or set %s to the URL of a server)", err, DatabaseVariable)
	}
	on = hostOn(server)
	on.admin, err = pooled(on.admin.target)
	return on, err
}

// installed returns the name of a database with schema pglock, which nothing connects to any more.
func (s *sharedServer) installed() (string, error) {
	if name := os.Getenv(InstalledVariable); name != "" {
		return name, nil
	}
	s.template.Do(func() { s.name, s.failed = install(s.on) })
	return s.name, s.failed
}

func install(on host) (name string, err error) {
	name = databaseName("with the schema")
	if err := on.copyDatabase(emptyDatabase, name); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	pool, err := pgxpool.New(ctx, withDatabase(on.admin.target, name))
	if err != nil {
		return "", err
	}
	defer pool.Close()
	return name, migrations.Up(ctx, pool)
}

func (s *sharedServer) stop() error {
	if s.on.admin == nil {
		return nil
	}
	var err error
	if s.name != "" && s.on.server == nil {
		err = s.on.admin.do(execute("DROP DATABASE " + s.name))
	}
	s.on.admin.pool.Close()
	if s.on.server != nil {
		err = errors.Join(err, s.on.server.Stop())
	}
	return err
}
