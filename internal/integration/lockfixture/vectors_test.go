package lockfixture_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/integration/lockfixture/pgxlocks"
	"github.com/pglock-toolkit/pglock/internal/keytemplate"
	"github.com/pglock-toolkit/pglock/internal/keytemplate/keyvectors"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
)

// withFunctions is a database with the generated SQL functions. They are applied twice, as a deployment may.
func withFunctions(t *testing.T) *testenv.DB {
	db := testenv.Database(t)
	functions, err := os.ReadFile("pgxlocks/locks.sql")
	must.Succeed(t, err)
	execute(t, db.Connect(t), string(functions), string(functions))
	return db
}

// TestSQLFunctionsMakeTheKeysThatGoMakes calls them under settings that change how values are written.
func TestSQLFunctionsMakeTheKeysThatGoMakes(t *testing.T) {
	t.Parallel()
	vectors, err := keyvectors.All()
	must.Succeed(t, err)
	db := withFunctions(t)
	latin := latin1(t, db)
	for _, settings := range []string{
		"",
		"SET TimeZone = 'Asia/Kathmandu'; SET DateStyle = 'German, DMY'; SET IntervalStyle = 'sql_standard'",
		"SET TimeZone = 'America/St_Johns'; SET DateStyle = 'SQL, MDY'; SET extra_float_digits = -15; SET bytea_output = 'escape'",
		"SET search_path = pg_temp; CREATE TEMP TABLE name (x int)",
	} {
		for _, conn := range []*pgx.Conn{db.Connect(t), connectTo(t, db, latin)} {
			execute(t, conn, settings)
			for _, v := range vectors {
				got, err := keyInSQL(t, conn, v)
				if err != nil && conn.Config().Database == latin && strings.Contains(err.Error(), "22P05") {
					continue // LATIN1 does not have all of its characters
				}
				if err != nil || got != v.Key {
					t.Errorf("%s, %q: %s of %q is %d, want %d: %v", conn.Config().Database, settings, v.Template, v.Values, got, v.Key, err)
				}
			}
		}
	}
}

// keyInSQL calls the functions from which the generator composes the function of each key.
func keyInSQL(t *testing.T, conn *pgx.Conn, v keyvectors.Vector) (key int64, err error) {
	t.Helper()
	var parts []string
	var args []any
	v.Template.Pieces(
		func(text string) { parts = append(parts, "'"+text+"'") },
		func(p *keytemplate.Param) {
			args = append(args, v.Values[len(args)])
			typ := p.Type
			if typ.IsInteger() {
				typ = keytemplate.BigInt
			}
			parts = append(parts, fmt.Sprintf("fixture.pglock_value($%d::text::%s)", len(args), typ))
		},
	)
	// PostgreSQL keeps microseconds, and would round the seventh digit.
	for i, arg := range args {
		args[i] = strings.Replace(arg.(string), ".1234569Z", ".123456Z", 1)
	}
	err = conn.QueryRow(t.Context(), "SELECT fixture.pglock_key("+strings.Join(parts, ", ")+")", args...).Scan(&key)
	return key, err
}

// latin1 makes a database in LATIN1 on the server of db, with the functions.
func latin1(t *testing.T, db *testenv.DB) (name string) {
	t.Helper()
	name = db.Name() + "_latin1"
	admin := db.Connect(t)
	execute(t, admin, fmt.Sprintf("CREATE DATABASE %s TEMPLATE template0 ENCODING LATIN1 LC_COLLATE 'C' LC_CTYPE 'C'", name))
	t.Cleanup(func() { execute(t, db.Connect(t), "DROP DATABASE "+name+" WITH (FORCE)") })
	functions, err := os.ReadFile("pgxlocks/locks.sql")
	must.Succeed(t, err)
	execute(t, connectTo(t, db, name), string(functions))
	return name
}

func connectTo(t *testing.T, db *testenv.DB, name string) *pgx.Conn {
	t.Helper()
	conn, _ := connect(t, strings.Replace(db.ConnString(), "/"+db.Name(), "/"+name, 1), pgx.QueryExecModeExec)
	execute(t, conn, "SET client_encoding = 'UTF8'") // Go's strings are; the default is the database's encoding
	return conn
}

// TestSQLFunctionsOfKeysAreThoseOfGo calls the function of each key.
func TestSQLFunctionsOfKeysAreThoseOfGo(t *testing.T) {
	t.Parallel()
	db := withFunctions(t)
	conn := db.Connect(t)
	for call, want := range map[string]pglock.Key{
		"fixture.invoice(42)":               pgxlocks.Invoice(42),
		"fixture.invoice(id => 42)":         pgxlocks.Invoice(42),
		"fixture.nightly_report()":          pgxlocks.NightlyReport(),
		"fixture.tenant_invoice('a:b', -1)": pgxlocks.TenantInvoice("a:b", -1),
	} {
		var got int64
		must.Succeed(t, conn.QueryRow(t.Context(), "SELECT "+call).Scan(&got))
		if got != want.Int64() {
			t.Errorf("%s is %d, want %d", call, got, want.Int64())
		}
	}
	var immutable bool
	must.Succeed(t, conn.QueryRow(t.Context(), `SELECT bool_and(provolatile = 'i' AND proparallel = 's') FROM pg_proc
		WHERE pronamespace = 'fixture'::regnamespace`).Scan(&immutable))
	if !immutable {
		t.Error("a function is not immutable")
	}
	for call, want := range map[string]string{
		"fixture.invoice(NULL)":                                         "22004",
		"fixture.tenant_invoice(repeat('x', 1024), 1)":                  "54000",
		"fixture.tenant_invoice(repeat('é', 500), 1)":                   "",
		"fixture.document(gen_random_uuid(), 1, 'infinity', true)":      "22004",
		"fixture.document(gen_random_uuid(), 1, now(), NULL)":           "22004",
		"fixture.document(gen_random_uuid(), 1, '294276-12-31', true)":  "",
		"fixture.document(gen_random_uuid(), 1, '4714-11-24 BC', true)": "",
	} {
		_, err := conn.Exec(t.Context(), "SELECT "+call)
		if (err == nil) != (want == "") || (err != nil && !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: the error is %v, want %s", call, err, want)
		}
	}
}
