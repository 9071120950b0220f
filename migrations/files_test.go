package migrations_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/migrations"
)

// TestSQLIsASCII: a database of another encoding refuses statements with characters that it does not have, in comments too.
func TestSQLIsASCII(t *testing.T) {
	t.Parallel()
	for _, folder := range []string{".", filepath.Join("..", "queries")} {
		files, err := filepath.Glob(filepath.Join(folder, "*.sql"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", folder, len(files), err)
		}
		for _, file := range files {
			sql, err := os.ReadFile(file)
			must.Succeed(t, err)
			for number, line := range strings.Split(string(sql), "\n") {
				if strings.ContainsFunc(line, func(r rune) bool { return r > unicode.MaxASCII }) {
					t.Errorf("%s:%d: %s", file, number+1, line)
				}
			}
		}
	}
}

// install runs a file as another tool would, in one transaction.
func install(t *testing.T, db execer, direction string) {
	t.Helper()
	execute(t, db, file(t, direction))
}

func file(t *testing.T, direction string) string {
	t.Helper()
	sql, err := migrations.FS.ReadFile("000001_pglock." + direction + ".sql")
	must.Succeed(t, err)
	return string(sql)
}

func TestTheFileIsUndoneByItsWayDownAndRunsInOneTransactionOnly(t *testing.T) {
	t.Parallel()
	conn := testenv.Database(t).Connect(t)
	before := catalog(t, conn)
	install(t, conn, "up")
	if got := must.One[uint](t, conn, "SELECT pglock.toolkit_version()"); got != migrations.Latest() {
		t.Errorf("it has version %d", got)
	}
	install(t, conn, "down")
	for _, statement := range split(file(t, "up"))[:3] {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			wantMentioned(t, err, "in one transaction")
		}
	}
	if after := catalog(t, conn); after != before {
		t.Errorf("at the end the catalog has\n%s", after)
	}
}

// catalog lists all objects of this database that are not PostgreSQL's, with comments and privileges.
func catalog(t *testing.T, conn *pgx.Conn) string {
	t.Helper()
	return must.One[string](t, conn, selectCatalog)
}

// Objects of the system have lower OIDs than 16384. Those for out-of-line storage are named after numbers.
const selectCatalog = `
WITH object (class, oid, sub, acl) AS (
	SELECT 'pg_class'::regclass, oid, 0, relacl FROM pg_class
	UNION ALL SELECT 'pg_class'::regclass, attrelid, attnum, attacl FROM pg_attribute WHERE attnum > 0
	UNION ALL SELECT 'pg_proc'::regclass, oid, 0, proacl FROM pg_proc
	UNION ALL SELECT 'pg_type'::regclass, oid, 0, typacl FROM pg_type
	UNION ALL SELECT 'pg_namespace'::regclass, oid, 0, nspacl FROM pg_namespace
	UNION ALL SELECT 'pg_constraint'::regclass, oid, 0, NULL FROM pg_constraint
)
SELECT coalesce(string_agg(line, E'\n' ORDER BY line), '') FROM (
	SELECT concat_ws(' ', o.type, o.identity, object.acl, d.description) AS line
	FROM object
	CROSS JOIN LATERAL pg_identify_object(object.class, object.oid, object.sub) AS o
	LEFT JOIN pg_description AS d ON d.classoid = object.class AND d.objoid = object.oid AND d.objsubid = object.sub
	WHERE object.oid >= 16384 AND o.identity !~ 'pg_toast_[0-9]'
) AS lines`

func TestTheFileIsWhatUpWouldDo(t *testing.T) {
	t.Parallel()
	t.Run("as one script", func(t *testing.T) {
		db := testenv.Database(t)
		install(t, db.Connect(t), "up")
		wantNothingToDo(t, db)
	})
	t.Run("statement by statement, split at semicolons outside of functions, with nothing on the search path", func(t *testing.T) {
		db := testenv.Database(t)
		err := pgx.BeginFunc(t.Context(), db.Connect(t), func(tx pgx.Tx) error {
			execute(t, tx, "SET LOCAL search_path = ''")
			for _, statement := range split(file(t, "up")) {
				execute(t, tx, statement)
			}
			return nil
		})
		must.Succeed(t, err)
		wantNothingToDo(t, db)
	})
}

// split cuts SQL at semicolons, except those between dollar quotes.
func split(sql string) (statements []string) {
	quoted := false
	statements = []string{""}
	for i, part := range strings.Split(sql, "$$") {
		if i > 0 {
			statements[len(statements)-1] += "$$"
			quoted = !quoted
		}
		pieces := []string{part}
		if !quoted {
			pieces = strings.Split(part, ";")
		}
		statements[len(statements)-1] += pieces[0]
		statements = append(statements, pieces[1:]...)
	}
	return statements
}

// wantNothingToDo checks that Up recognises the schema as its own and complete, and that it is what Up makes.
func wantNothingToDo(t *testing.T, db *testenv.DB) {
	t.Helper()
	conn, pool := db.Connect(t), db.Pool(t)
	wantVersion(t, pool, migrations.Latest())
	before := catalog(t, conn)
	mustUp(t, pool)
	if after := catalog(t, conn); after != before {
		t.Errorf("Up changed\n%s\nto\n%s", before, after)
	}
	other := testenv.Database(t)
	mustUp(t, other.Pool(t))
	if ours := catalog(t, other.Connect(t)); before != ours {
		t.Errorf("the file makes\n%s\nand Up\n%s", before, ours)
	}
	execute(t, pool, "SELECT pglock.register('a')")
	if err := migrations.Down(t.Context(), pool); err != nil {
		t.Error(err)
	}
}
