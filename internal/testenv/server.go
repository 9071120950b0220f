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

// settings are those of every server that is started here.
var settings = map[string]string{
	"max_connections":           "300",
	"max_locks_per_transaction": "256",
	"max_prepared_transactions": "20",
}

// NewServer starts a PostgreSQL of the test's own, to restart, break and pause, with more settings than the usual ones
// or none. It is stopped when the test ends.
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
	server *pgserver.Server // nil when the environment names one
	err    error
}

// connString connects to a database of the server where others can be created.
func (s *sharedServer) connString() (string, error) {
	if external := os.Getenv(DatabaseVariable); external != "" {
		return external, nil
	}
	s.once.Do(func() { s.server, s.err = startServer(nil) })
	if s.err != nil {
		return "", fmt.Errorf("%w\n(or set %s to the URL of a server)", s.err, DatabaseVariable)
	}
	return s.server.ConnString(pgserver.Superuser), nil
}

func (s *sharedServer) stop() error {
	if s.server == nil {
		return nil
	}
	return s.server.Stop()
}
