package testenv

import (
	"context"
	"fmt"
	"maps"
	"os"
	"sync"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/pgserver"
)

// DatabaseVariable is the environment variable with the connection string of a PostgreSQL for the tests. Its role must
// be able to create databases and roles and to read pg_stat_activity.
const DatabaseVariable = "PGLOCK_TEST_DATABASE_URL"

// settings are the settings of every server that this package starts.
var settings = map[string]string{
	"max_connections":           "300",
	"max_locks_per_transaction": "256",
	"max_prepared_transactions": "20",
}

// host is a server that tests can have databases on.
type host struct {
	what   string           // for messages
	admin  string           // connects to a database where others can be created
	server *pgserver.Server // nil if the environment names the server
}

func hostOn(server *pgserver.Server) host {
	return host{what: server.Binaries().String(), admin: server.ConnString(pgserver.Superuser), server: server}
}

// NewServer starts a PostgreSQL server for the test, which can restart, break and pause it, optionally with additional
// settings. It is stopped when the test ends.
func NewServer(t testing.TB, more map[string]string) *pgserver.Server {
	t.Helper()
	server, err := startServer(more)
	if err != nil {
		t.Fatal(err)
	}
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
	return pgserver.Start(context.Background(), pgserver.Options{Settings: all})
}

// shared is the server that all tests of a binary have their databases on.
var shared sharedServer

type sharedServer struct {
	once   sync.Once
	server *pgserver.Server // nil if the environment names one
	err    error
}

func (s *sharedServer) host() (host, error) {
	if external := os.Getenv(DatabaseVariable); external != "" {
		return host{what: "the server that " + DatabaseVariable + " names", admin: external}, nil
	}
	s.once.Do(func() { s.server, s.err = startServer(nil) })
	if s.err != nil {
		return host{}, fmt.Errorf("%w\n(or set %s to the URL of a server)", s.err, DatabaseVariable)
	}
	return hostOn(s.server), nil
}

func (s *sharedServer) stop() error {
	if s.server == nil {
		return nil
	}
	return s.server.Stop()
}
