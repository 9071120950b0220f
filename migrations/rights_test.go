package migrations_test

import (
	"go/doc/comment"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/migrations"
)

const insufficientPrivilege = "42501"

func TestThePackageCommentHasTheGrants(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "doc.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for _, block := range new(comment.Parser).Parse(file.Doc.Text()).Content {
		if code, ok := block.(*comment.Code); ok && strings.HasPrefix(code.Text, "GRANT") {
			documented = append(documented, code.Text)
		}
	}
	want := []string{
		migrations.LockerGrants("app"), migrations.WatcherGrants("watcher"), migrations.PrunerGrants("pruner")}
	if !slices.Equal(documented, want) {
		t.Errorf("the package comment has\n%s\nand the functions\n%s",
			strings.Join(documented, "\n"), strings.Join(want, "\n"))
	}
}

func TestGrantsQuoteTheRole(t *testing.T) {
	t.Parallel()
	for _, grants := range []func(string) string{
		migrations.LockerGrants, migrations.WatcherGrants, migrations.PrunerGrants} {
		grants := grants(`a"; DROP`)
		if !strings.Contains(grants, `TO "a""; DROP";`) {
			t.Errorf("grants for a strange role:\n%s", grants)
		}
	}
}

// uses are all the things that can be done with the schema.
var uses = map[string]string{
	"compute a key":       "SELECT pglock.key('a')",
	"register a name":     "SELECT pglock.register('a')",
	"draw a fence":        "SELECT pglock.fence_draw(1)",
	"waste a fence":       "SELECT nextval('pglock.fence')",
	"lock rows of fences": "SELECT FROM pglock.fence_rows FOR KEY SHARE",
	"delete such rows":    "DELETE FROM pglock.fence_rows",
	"move the fence":      "SELECT setval('pglock.fence', 1)",
	"read the fence":      "SELECT last_value FROM pglock.fence",
	"read names":          "SELECT FROM pglock.names",
	"write names":         "INSERT INTO pglock.names (key, name) VALUES (-3848465438864589366, 'a')",
	"change names":        "UPDATE pglock.names SET first_seen = now()",
	"delete names":        "DELETE FROM pglock.names",
	"find a semaphore":    "SELECT pglock.semaphore_of('pglock:semaphore:1:a')",
	"read locks":          "SELECT FROM pglock.locks",
	"read waits":          "SELECT FROM pglock.waits",
	"read blockers":       "SELECT FROM pglock.blockers",
	"find blockers":       "SELECT pglock.find_blockers()",
	"record a run":        "SELECT pglock.tick('job', now(), 'start')",
	"read runs":           "SELECT FROM pglock.runs",
	"write runs":          "DELETE FROM pglock.runs",
	"read jobs":           "SELECT FROM pglock.jobs",
	"write jobs":          "UPDATE pglock.jobs SET pruned = NULL",
	"do once":             "SELECT pglock.once('a', 'b')",
	"do once in a batch":  "SELECT pglock.once_or_raise('a', 'c')",
	"keep a result":       "SELECT pglock.once_record('a', 'd', NULL, NULL)",
	"read what was done":  "SELECT FROM pglock.once_records",
	"undo what was done":  "DELETE FROM pglock.once_records",
	"turn the ring":       "UPDATE pglock.once_slots SET since = NULL",
	"forget what is old":  "SELECT pglock.once_prune('1 year')",
	"take of a rate":      "SELECT pglock.rate_take('{a}', '{1}', '{1}', '{1}', '{1}', '{0}')",
	"give back of a rate": "SELECT pglock.rate_return('a', 1, 1)",
	"prune rates":         "SELECT pglock.rate_prune(1)",
	"read rates":          "SELECT FROM pglock.rates",
	"write rates":         "DELETE FROM pglock.rates",
	"hold leases":         "SELECT pglock.lease_open(gen_random_uuid(), 1, '', '', 1)",
	"renew leases":        "SELECT pglock.lease_renew('00000000-0000-0000-0000-000000000001', 1)",
	"end a holder":        "SELECT pglock.lease_end('00000000-0000-0000-0000-000000000001')",
	"take leases":         "SELECT pglock.lease_call('00000000-0000-0000-0000-000000000001', 1, '{}', '{}', '{}', '{}', 0, '{}', '{}', '{}', '{}', '{}', '{}')",
	"drop leases":         "SELECT pglock.lease_drop('00000000-0000-0000-0000-000000000001', '{x}', '{1}', '{1}', '{1}')",
	"take past the line":  "SELECT pglock.lease_take('00000000-0000-0000-0000-000000000001', 1, '{}', '{}', '{}', '{}', '{}', '{}')",
	"settle leases":       "SELECT pglock.lease_settle('00000000-0000-0000-0000-000000000001', 1, '{}', '{}')",
	"poll leases":         "SELECT pglock.lease_poll('00000000-0000-0000-0000-000000000001', '{}', '{}', '{}', '{}', '{}')",
	"check leases":        "SELECT pglock.lease_holds('00000000-0000-0000-0000-000000000001', 1, true, '{1}', '{1}')",
	"fence leases":        "SELECT pglock.lease_fence('00000000-0000-0000-0000-000000000001', 1, true, '{1}', '{1}')",
	"guard by leases":     "SELECT pglock.lease_guard('00000000-0000-0000-0000-000000000001', 1, true, '{}', '{}')",
	"see who holds":       "SELECT pglock.lease_holders('00000000-0000-0000-0000-000000000001', 1::smallint, 1)",
	"list leases":         "SELECT pglock.lease_rows('00000000-0000-0000-0000-000000000001')",
	"prune leases":        "SELECT pglock.lease_prune(1000, 1)",
	"make commits wait":   "SELECT pglock.lease_durable()",
	"read holders":        "SELECT FROM pglock.holders",
	"revive a holder":     "UPDATE pglock.holders SET ended = false",
	"read leases":         "SELECT FROM pglock.leases",
	"steal leases":        "UPDATE pglock.leases SET holder = NULL",
	"keep leases":         "SELECT FROM pglock.leases FOR SHARE",
	"read shares":         "SELECT FROM pglock.lease_shares",
	"write shares":        "DELETE FROM pglock.lease_shares",
	"read waiters":        "SELECT FROM pglock.lease_waiters",
	"jump the queue":      "DELETE FROM pglock.lease_waiters",
	"read row locks":      "SELECT FROM pglock.row_locks",
	"read row waits":      "SELECT FROM pglock.row_waits",
	"end a process":       "SELECT pglock.lease_terminate('')",
	"read the version":    "SELECT FROM pglock.schema_migrations",
	"change the version":  "UPDATE pglock.schema_migrations SET version = 0",
	"write a key":         "SELECT pglock.written('a', 1, 1)",
	"create in schema":    "CREATE TABLE pglock.mine ()",
	"drop what is there":  "DROP VIEW pglock.waits",
	"replace what it has": "CREATE OR REPLACE FUNCTION pglock.key(text) RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint'",
}

func TestARoleMayDoWhatItsGrantsSayAndNoMore(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		grants func(role string) string
		may    []string
	}{
		"no grants": {func(string) string { return "" }, nil},
		"locker": {migrations.LockerGrants, []string{
			"compute a key", "register a name", "draw a fence", "waste a fence", "read the version", "record a run", "do once",
			"do once in a batch", "keep a result", "take of a rate", "give back of a rate", "prune rates",
			"hold leases", "renew leases", "end a holder", "take leases", "settle leases", "poll leases", "check leases",
			"fence leases", "guard by leases", "see who holds", "list leases", "prune leases"}},
		"watcher": {migrations.WatcherGrants, []string{
			"read names", "find a semaphore", "write a key", "read locks", "read waits", "read blockers", "find blockers", "read row locks", "read row waits", "read the fence", "read the version", "read runs", "read jobs"}},
		"pruner": {migrations.PrunerGrants, []string{"forget what is old", "read the fence"}},
	} {
		t.Run(name, func(t *testing.T) {
			db, owner := installed(t)
			pool := poolAs(t, db.Role(t, "pglock_test"))
			execute(t, owner, test.grants(user(pool)))
			for use, sql := range uses {
				_, err := pool.Exec(t.Context(), sql)
				if may := slices.Contains(test.may, use); may && err != nil {
					t.Errorf("may not %s: %v", use, err)
				} else if !may {
					wantRefused(t, use, err)
				}
			}
		})
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

func TestAWatcherSeesEveryLockAndNothingThatPostgreSQLHides(t *testing.T) {
	t.Parallel()
	db, owner := installed(t)
	watcher := poolAs(t, db.Role(t, "pglock_watcher"))
	execute(t, owner, migrations.WatcherGrants(user(watcher)))
	execute(t, owner, "SELECT pglock.register('report')")
	holder := db.Connect(t)
	execute(t, holder, "SELECT pg_advisory_lock(pglock.key('report'))")
	waiting := waitFor(t, db, db.Connect(t), "SELECT pg_advisory_xact_lock(pglock.key('report'))")

	rows := locks(t, watcher)
	if len(rows) != 2 {
		t.Errorf("%d rows", len(rows))
	}
	for _, row := range rows {
		if row.Key != "report" || row.PID == nil || valueOr(row.Usename, "") != user(owner) ||
			valueOr(row.ApplicationName, "") != t.Name() {
			t.Errorf("a row lacks what every role may see: %+v", row)
		}
		if row.State != nil || row.ClientAddr != nil || row.SessionSince != nil {
			t.Errorf("a row has what is hidden: %+v", row)
		}
	}
	edges := waits(t, watcher)
	if len(edges) != 1 || edges[0].BlockerPID != pid(holder) || valueOr(edges[0].Block, "") != "hard" {
		t.Errorf("waits: %+v", edges)
	}
	for _, edge := range edges {
		if edge.BlockerState != nil || edge.BlockerClientAddr != nil {
			t.Errorf("a wait has what is hidden: %+v", edge)
		}
	}

	execute(t, owner, "GRANT pg_read_all_stats TO "+user(watcher))
	for _, row := range locks(t, watcher) {
		if row.State == nil || row.SessionSince == nil {
			t.Errorf("pg_read_all_stats does not show: %+v", row)
		}
	}
	execute(t, holder, "SELECT pg_advisory_unlock_all()")
	waiting()
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
	if rows := locks(t, pool); len(rows) != 0 {
		t.Errorf("%+v", rows)
	}
	if err := migrations.Down(t.Context(), pool); err != nil {
		t.Error(err)
	}
}
