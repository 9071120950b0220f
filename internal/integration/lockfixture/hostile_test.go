package lockfixture_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/keytemplate"
	"github.com/pglock-toolkit/pglock/internal/keytemplate/keyvectors"
	"github.com/pglock-toolkit/pglock/internal/lockgen"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
)

// generated is locks.sql for declarations of keys, in schema hostile.
func generated(declarations ...string) (string, error) {
	in := lockgen.Input{Options: lockgen.Options{Package: "hostile", Generator: "a test"}}
	var text strings.Builder
	for _, declaration := range declarations {
		text.WriteString("-- pglock: key " + declaration + "\n")
	}
	if err := in.ReadAnnotated("q.sql", text.String()); err != nil {
		return "", err
	}
	files, err := lockgen.Generate(in)
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(files, func(f lockgen.File) bool { return f.Name == "locks.sql" })
	return string(files[i].Contents), nil
}

// hostile are declarations whose texts would mean something in SQL, in psql or in migration tools.
var hostile = []string{
	`a$pglock$;CREATE/**/TABLE/**/public.planted();--:{id bigint} func=A`,
	`b$body$;END$pglock$;CREATE/**/TABLE/**/public.planted();--:{id bigint} func=B -- $body$; $pglock$; $$`,
	`c';CREATE/**/TABLE/**/public.planted();--:{id bigint} func=C -- ';CREATE TABLE public.planted(); --`,
	`d\';CREATE/**/TABLE/**/public.planted();--:{t text} func=D -- \'; \x27 \u0027 \`,
	`e\:{t text} func=E -- */ /* -- ${user} {{env "HOME"}} :'user' :user \! id`,
	`日本語/表ソ能:{t text}:{u uuid} func=Order -- 注文`,
	`é👍:{b boolean}:{at timestamptz}:{n smallint}:{m integer} func=Éa`,
	`g:{select text}:{User bigint}:{path text}:{found_role text}:{body text} func=User`,
	`"h"%I%s%%:{t text} func=Percent -- "%"`,
}

// samples are values of each type, in SQL and in Go.
var samples = map[keytemplate.Type]struct {
	sql   string
	value any
}{
	keytemplate.SmallInt: {"'-32768'", int16(-32768)},
	keytemplate.Integer:  {"'7'", int32(7)},
	keytemplate.BigInt:   {"'-9223372036854775808'", int64(-9223372036854775808)},
	keytemplate.Text:     {`'$body$''{%:é\'`, `$body$'{%:é\`},
	keytemplate.UUID:     {"'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'", [16]byte{0xa0, 0xee, 0xbc, 0x99, 0x9c, 0x0b, 0x4e, 0xf8, 0xbb, 0x6d, 0x6b, 0xb9, 0xbd, 0x38, 0x0a, 0x11}},
	keytemplate.Boolean:  {"'on'", true},
	keytemplate.TimestampTZ: {"'2026-01-02 03:04:05.678901+01'",
		time.Date(2026, 1, 2, 2, 4, 5, 678901000, time.UTC)},
}

// sampled returns the arguments with which to call a template's function, and the key that Go makes.
func sampled(t *testing.T, declaration string) (arguments string, key pglock.Key) {
	t.Helper()
	text, _, _ := strings.Cut(declaration+" ", " -- ")
	text, _ = keytemplate.CutTemplate(text)
	template, err := keytemplate.Parse(text)
	must.Succeed(t, err)
	var inSQL []string
	var values []any
	for _, p := range template.Params() {
		inSQL = append(inSQL, samples[p.Type].sql+"::"+p.Type.String())
		values = append(values, samples[p.Type].value)
	}
	return strings.Join(inSQL, ", "), keyvectors.Typed(template).Key(values...)
}

// objects counts what a database has.
const objects = `SELECT ARRAY[(SELECT count(*) FROM pg_namespace), (SELECT count(*) FROM pg_class), (SELECT count(*) FROM pg_type),
	(SELECT count(*) FROM pg_proc), (SELECT count(*) FROM pg_operator), (SELECT count(*) FROM pg_cast),
	(SELECT count(*) FROM pg_trigger), (SELECT count(*) FROM pg_auth_members), (SELECT count(*) FROM pg_authid)]`

func count(t *testing.T, tx pgx.Tx) (counts []int64) {
	t.Helper()
	must.Succeed(t, tx.QueryRow(t.Context(), objects).Scan(&counts))
	return counts
}

// FuzzSQLFunctionsStayInTheirConstants applies the SQL of a declaration, and looks for anything but its function.
func FuzzSQLFunctionsStayInTheirConstants(f *testing.F) {
	for _, declaration := range hostile {
		f.Add(declaration)
	}
	conn := testenv.Database(f).Connect(f)
	f.Fuzz(func(t *testing.T, declaration string) {
		sql, err := generated(declaration)
		if err != nil {
			return // it is refused
		}
		for _, settings := range []string{"SET LOCAL standard_conforming_strings = on",
			"SET LOCAL standard_conforming_strings = off; SET LOCAL client_encoding = 'SJIS'; SET LOCAL escape_string_warning = off"} {
			tx := begin(t, conn)
			before := count(t, tx)
			execute(t, conn, settings, sql, sql,
				"SET LOCAL standard_conforming_strings = on; SET LOCAL client_encoding = 'UTF8'")
			var helpers int64
			var function string
			must.Succeed(t, conn.QueryRow(t.Context(), `SELECT count(*) FILTER (WHERE proname LIKE 'pglock\_%'),
				min(oid::regproc::text) FILTER (WHERE proname NOT LIKE 'pglock\_%')
				FROM pg_proc WHERE pronamespace = 'hostile'::regnamespace`).Scan(&helpers, &function))
			before[0]++              // the schema
			before[3] += 1 + helpers // the functions
			if after := count(t, tx); !slices.Equal(before, after) {
				t.Errorf("%q: there are %v objects, want %v:\n%s", declaration, after, before, sql)
			}
			arguments, want := sampled(t, declaration)
			var got int64
			err := conn.QueryRow(t.Context(), fmt.Sprintf("SELECT %s(%s)", function, arguments)).Scan(&got)
			if tooLong := want.ID() == (pglock.Key{}).ID(); tooLong != (err != nil) || !tooLong && got != want.Int64() {
				t.Errorf("%q: %s(%s) is %d, want %s: %v", declaration, function, arguments, got, want, err)
			}
			must.Succeed(t, tx.Rollback(t.Context()))
		}
	})
}

// psql reads the file before the server does, and has a lexer of its own.
func TestSQLFunctionsStayInTheirConstantsInPsql(t *testing.T) {
	t.Parallel()
	sql, err := generated(hostile...)
	must.Succeed(t, err)
	file := filepath.Join(t.TempDir(), "locks.sql")
	must.Succeed(t, os.WriteFile(file, []byte(sql), 0o600))
	db := testenv.Database(t)
	for _, encoding := range []string{"UTF8", "SJIS", "LATIN1"} {
		psql := exec.CommandContext(t.Context(), "psql", "-Xqf", file, "-v", "ON_ERROR_STOP=1", db.ConnString())
		psql.Env = append(os.Environ(), "PGCLIENTENCODING="+encoding, "PGOPTIONS=-c client_min_messages=warning")
		if out, err := psql.CombinedOutput(); err != nil || len(out) > 0 {
			t.Fatalf("psql: %v\n%s", err, out)
		}
	}
	conn := db.Connect(t)
	var tables, functions int
	must.Succeed(t, conn.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM pg_class WHERE relname = 'planted'),
		(SELECT count(*) FROM pg_proc WHERE pronamespace = 'hostile'::regnamespace AND proname NOT LIKE 'pglock\_%')`).
		Scan(&tables, &functions))
	if tables != 0 || functions != len(hostile) {
		t.Errorf("there are %d tables and %d functions, want 0 and %d", tables, functions, len(hostile))
	}
}

// A superuser applies the file in a database whose owner is hostile.
func TestSQLFunctionsRunNothingOfTheTenants(t *testing.T) {
	t.Parallel()
	functions, err := os.ReadFile("pgxlocks/locks.sql")
	must.Succeed(t, err)
	db := testenv.Database(t)
	tenant := db.Tenant(t)
	tenant.PlantSearchPath()
	tenant.Exec("CREATE DOMAIN trap.uuid AS pg_catalog.uuid CHECK (trap.spring())")
	conn := db.Connect(t)
	execute(t, conn, string(functions), string(functions))
	for _, call := range []string{"fixture.invoice(42)", "fixture.nightly_report()", "fixture.tenant_invoice('a:b', -1)",
		"fixture.document('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 1, '2026-01-02', true)"} {
		execute(t, conn, "SELECT "+call)
	}
	var path string
	must.Succeed(t, conn.QueryRow(t.Context(), "SHOW search_path").Scan(&path))
	if path != "trap, public, pg_catalog" {
		t.Errorf("search_path is now %s", path)
	}
	must.Succeed(t, conn.Close(t.Context()))
	tenant.WantNothingGained("locks.sql")
}

func TestSQLFunctionsRefuseASchemaThatAnotherRoleCanChange(t *testing.T) {
	t.Parallel()
	functions, err := os.ReadFile("pgxlocks/locks.sql")
	must.Succeed(t, err)
	for name, test := range map[string]struct{ planted, want string }{
		"schema": {"CREATE SCHEMA fixture; GRANT ALL ON SCHEMA fixture TO PUBLIC", "the schema itself"},
		"function": {"CREATE FUNCTION fixture.invoice(id bigint) RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint'",
			"the function fixture.invoice(bigint)"},
		"another function": {"CREATE FUNCTION fixture.invoice(id integer) RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint'",
			"the function fixture.invoice(integer)"},
		"right": {"", "the right CREATE"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := testenv.Database(t)
			tenant := db.Tenant(t)
			admin := db.Connect(t)
			revoke := "SELECT"
			if name != "schema" {
				role := pgx.Identifier{tenant.Name()}.Sanitize()
				execute(t, admin, "CREATE SCHEMA fixture", "GRANT ALL ON SCHEMA fixture TO "+role)
				revoke = "REVOKE CREATE ON SCHEMA fixture FROM " + role
			}
			if test.planted != "" {
				tenant.Exec(test.planted)
				execute(t, admin, revoke)
			}
			var before, after int
			const number = "SELECT count(*) FROM pg_proc WHERE pronamespace = 'fixture'::regnamespace"
			must.Succeed(t, admin.QueryRow(t.Context(), number).Scan(&before))
			if _, err := admin.Exec(t.Context(), string(functions)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("the error is %v, want %q", err, test.want)
			}
			must.Succeed(t, admin.QueryRow(t.Context(), number).Scan(&after))
			if after != before {
				t.Errorf("there are %d functions, and were %d", after, before)
			}
		})
	}
}
