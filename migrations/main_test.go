package migrations_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/migrations"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// installed returns a pool for a new database that has the schema.
func installed(t *testing.T) (*testenv.DB, *pgxpool.Pool) {
	t.Helper()
	db := testenv.Installed(t)
	return db, db.Pool(t)
}

func mustUp(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	must.Succeed(t, migrations.Up(t.Context(), pool))
}

func wantVersion(t *testing.T, pool *pgxpool.Pool, want uint) {
	t.Helper()
	got, err := migrations.Version(t.Context(), pool)
	if err != nil || got != want {
		t.Fatalf("Version = %d, %v; want %d", got, err, want)
	}
}

// poolAs connects with another connection string: as another role, or through a pooler.
func poolAs(t *testing.T, connString string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), connString)
	must.Succeed(t, err)
	t.Cleanup(pool.Close)
	return pool
}

func user(pool *pgxpool.Pool) string { return pool.Config().ConnConfig.User }

type execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// execute runs SQL. Without arguments it may consist of several statements.
func execute(t *testing.T, db execer, sql string, args ...any) {
	t.Helper()
	if _, err := db.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// all returns all rows, each as T by its field names.
func all[T any](t *testing.T, db querier, sql string, args ...any) []T {
	t.Helper()
	rows, err := db.Query(t.Context(), sql, args...)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByName[T])
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return list
}

// number is the definition of a name's lock number.
func number(name string) int64 {
	sum := sha256.Sum256([]byte(name))
	return int64(binary.BigEndian.Uint64(sum[:8]))
}
