package migrations_test

import (
	"go/doc/comment"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/migrations"
)

const insufficientPrivilege = "42501"

func TestThePackageCommentHasTheGrants(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "doc.go", nil, parser.ParseComments)
	must.Succeed(t, err)
	var documented []string
	for _, block := range new(comment.Parser).Parse(file.Doc.Text()).Content {
		if code, ok := block.(*comment.Code); ok && strings.HasPrefix(code.Text, "GRANT") {
			documented = append(documented, code.Text)
		}
	}
	want := []string{
		migrations.LockerGrants("app"), migrations.WatcherGrants("watcher")}
	if !slices.Equal(documented, want) {
		t.Errorf("the package comment has\n%s\nand the functions\n%s",
			strings.Join(documented, "\n"), strings.Join(want, "\n"))
	}
}

func TestGrantsQuoteTheRole(t *testing.T) {
	t.Parallel()
	for _, grants := range []func(string) string{migrations.LockerGrants, migrations.WatcherGrants} {
		grants := grants(`a"; DROP`)
		if !strings.Contains(grants, `TO "a""; DROP";`) {
			t.Errorf("grants for a strange role:\n%s", grants)
		}
	}
}

// held lists what a role may do in the schema: functions, and privileges on tables, views and sequences.
const held = `
SELECT coalesce(string_agg(line, ' ' ORDER BY line COLLATE "C"), '') FROM (
	SELECT proname::text AS line FROM pg_proc
	WHERE pronamespace = 'pglock'::regnamespace AND has_function_privilege($1, oid, 'EXECUTE')
	UNION ALL
	SELECT concat(relname, ':', privilege) FROM pg_class,
		unnest('{SELECT,INSERT,UPDATE,DELETE,TRUNCATE,REFERENCES,TRIGGER}'::text[]) AS privilege
	WHERE relnamespace = 'pglock'::regnamespace AND relkind IN ('r', 'p', 'v') AND has_table_privilege($1, oid, privilege)
	UNION ALL
	SELECT concat(relname, ':', privilege) FROM pg_class, unnest('{SELECT,UPDATE,USAGE}'::text[]) AS privilege
	WHERE relnamespace = 'pglock'::regnamespace AND relkind = 'S' AND has_sequence_privilege($1, oid, privilege)
) AS may`

func TestARoleMayDoWhatItsGrantsSayAndNoMore(t *testing.T) {
	t.Parallel()
	db, owner := installed(t)
	for name, grants := range map[string]func(string) string{
		"none": func(string) string { return "" }, "locker": migrations.LockerGrants, "watcher": migrations.WatcherGrants,
	} {
		pool := poolAs(t, db.Role(t, "pglock_"+name))
		execute(t, owner, grants(user(pool)))
		var want []string
		for line := range strings.Lines(grants(user(pool))) {
			words := strings.Fields(strings.NewReplacer("pglock.", "", ",", "").Replace(line))
			privilege, kind, objects := words[1], words[3], words[4:len(words)-2]
			for _, object := range objects {
				switch kind {
				case "FUNCTION":
					want = append(want, object)
				case "TABLE", "SEQUENCE":
					want = append(want, object+":"+privilege)
				}
			}
		}
		slices.Sort(want)
		if got := must.One[string](t, owner, held, user(pool)); got != strings.Join(want, " ") {
			t.Errorf("%s may %s; the grants say %s", name, got, strings.Join(want, " "))
		}
		_, err := pool.Exec(t.Context(), "CREATE TABLE pglock.mine ()")
		wantRefused(t, "create in the schema", err)
	}
}

func wantRefused(t *testing.T, use string, err error) {
	t.Helper()
	if err == nil {
		t.Errorf("may %s", use)
		return
	}
	wantState(t, err, insufficientPrivilege)
}

func TestARoleWithoutTheRightToCreateIsToldWhichOne(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	owner, pool := db.Pool(t), poolAs(t, db.Role(t, "pglock_test"))
	grant := `GRANT CREATE ON DATABASE "` + db.Name() + `" TO "` + user(pool) + `"`

	err := migrations.Up(t.Context(), pool)
	wantState(t, err, insufficientPrivilege)
	wantMentioned(t, err, grant)
	wantMissing(t, pool, db)

	execute(t, owner, grant) // no other right is needed
	mustUp(t, pool)
	wantVersion(t, pool, migrations.Latest())
	execute(t, pool, "SELECT pglock.register('a'), nextval('pglock.fence')")
	wantLines(t, pool, "SELECT key FROM pglock.locks")
	if err := migrations.Down(t.Context(), pool); err != nil {
		t.Error(err)
	}
}
