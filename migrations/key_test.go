package migrations_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

func TestKeyIsTheNumberThatTheNamesBytesInUTF8Have(t *testing.T) {
	t.Parallel()
	_, pool := installed(t)
	for name, want := range map[string]int64{
		"":               -2039914840885289964,
		"a":              -3848465438864589366,
		"invoice:42":     6688477336110245193,
		"nightly-report": 7440995589958059143,
		"日本語/注文":         -4808533561451899025,
	} {
		if got := must.One[int64](t, pool, "SELECT pglock.key($1)", name); got != want || got != number(name) {
			t.Errorf("pglock.key(%q) = %d, want %d", name, got, want)
		}
	}
	if got := must.One[*int64](t, pool, "SELECT pglock.key(NULL)"); got != nil {
		t.Errorf("pglock.key(NULL) = %d", *got)
	}
}

func TestKeyDoesNotDependOnTheServersEncoding(t *testing.T) {
	t.Parallel()
	for encoding, names := range map[string][]string{
		"LATIN1":    {"", "a", "invoice:42", "Grüße/é"},
		"EUC_JP":    {"", "a", "invoice:42", "日本語/注文"},
		"SQL_ASCII": {"", "a", "invoice:42", "日本語/注文", "Grüße/é"}, // it keeps the client's bytes
	} {
		t.Run(encoding, func(t *testing.T) {
			conn := connectEncoded(t, encoding)
			install(t, conn, "up")
			for _, name := range names {
				if got := must.One[int64](t, conn, "SELECT pglock.key($1)", name); got != number(name) {
					t.Errorf("pglock.key(%q) = %d, want %d", name, got, number(name))
				}
			}
			if added := must.One[int](t, conn, "SELECT pglock.register(VARIADIC $1)", names); added != len(names) {
				t.Errorf("%d of %d names were new", added, len(names))
			}
		})
	}
}

// connectEncoded connects to a new database with that encoding, on the server of the test's database.
func connectEncoded(t *testing.T, encoding string) *pgx.Conn {
	t.Helper()
	beside := testenv.Database(t)
	name := pgx.Identifier{beside.Name() + encoding}
	admin := beside.Connect(t)
	execute(t, admin, fmt.Sprintf("CREATE DATABASE %s TEMPLATE template0 ENCODING '%s' LC_COLLATE 'C' LC_CTYPE 'C'",
		name.Sanitize(), encoding))
	config := beside.Config(t).ConnConfig
	config.Database = name[0]
	config.RuntimeParams["client_encoding"] = "UTF8"
	conn, err := pgx.ConnectConfig(t.Context(), config)
	must.Succeed(t, err)
	t.Cleanup(func() {
		_, dropErr := admin.Exec(context.Background(), "DROP DATABASE "+name.Sanitize()+" WITH (FORCE)")
		if err := errors.Join(dropErr, conn.Close(context.Background())); err != nil {
			t.Error(err)
		}
	})
	return conn
}

// Functions that set no search_path name everything with its schema, or are parsed when they are made.
func TestTheFunctionsPinTheirSearchPath(t *testing.T) {
	t.Parallel()
	_, pool := installed(t)
	got := must.One[string](t, pool, `SELECT string_agg(proname, ' ' ORDER BY proname) FROM pg_proc
		WHERE pronamespace = 'pglock'::regnamespace AND NOT coalesce('search_path=pg_catalog, pg_temp' = ANY (proconfig), false)`)
	if got != "once written" {
		t.Errorf("without a search_path: %s", got)
	}
}
