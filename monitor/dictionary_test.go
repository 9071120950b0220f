package monitor_test

import (
	"strings"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
)

// namesFile begins as Windows editors write it.
const namesFile = "\ufeff" + `# what the shop locks
nightly-report
  @@home

invoice:{1..1000}
shard:{08..10}/{0..2}
{not a range}
order:{1..
`

func TestNamesGivenNamesAreShownInEveryDatabase(t *testing.T) {
	here, there := testenv.Database(t), testenv.Database(t)
	names, err := monitor.ReadDictionary(strings.NewReader(namesFile))
	must.Succeed(t, err)
	if want := 1 + 1 + 1000 + 9 + 1 + 1; names.Len() != want {
		t.Errorf("there are %d names, want %d", names.Len(), want)
	}
	given := []string{"nightly-report", "@home", "invoice:1", "invoice:1000", "shard:08/0", "shard:10/2", "{not a range}", "order:{1.."}
	for _, db := range []*testenv.DB{here, there} {
		holder := db.Connect(t)
		for _, name := range append(given, "invoice:1001", "shard:8/0", "@@home") {
			execute(t, holder, lockNamed(name))
		}
	}
	s, err := monitor.Take(t.Context(), here.Pool(t), monitor.WithDictionary(names))
	must.Succeed(t, err)
	for _, db := range []*testenv.DB{here, there} {
		var shown []string
		for _, lock := range s.Locks {
			if lock.Database == db.Name() {
				shown = append(shown, lock.Names...)
			}
		}
		requireEqual(t, "names in "+db.Name(), shown, given)
	}
	if lock := find(t, s, pglock.NewKey("@home")); lock.Key != "@@home" || lock.Label() != "@@home" {
		t.Errorf("@home is shown as %q", lock.Key)
	}
}

func TestNamesMistakesInNamesAreErrors(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a\n@42":                            "line 2: @42 is a number",
		"@7/-42":                            "is a number",
		"@":                                 "line 1: ",
		"\n\nx:{9..1}":                      "line 3: {9..1}: the range counts down",
		"x:{1..1000001}":                    "line 1: with \"x:{1..1000001}\" there are more than 1000000 names",
		"a:{1..999999}\nb\nc":               "line 3: ",
		"{1..100000}{1..100000}":            "more than 1000000 names",
		"{0..9223372036854775807}":          "more than 1000000 names",
		"{1..9223372036854775808}":          "value out of range",
		"{1..99999999999}{1..99999999999}":  "more than 1000000 names",
		"a\xff":                             "line 1: not UTF-8",
		"a\n" + strings.Repeat("x", 70_000): "line 2 is longer than 65535 bytes, the maximum",
	} {
		_, err := monitor.ReadDictionary(strings.NewReader(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: got %v, want an error that contains %q", text, err, want)
		}
	}
}

func TestNamesNoNamesAreNoNames(t *testing.T) {
	db := testenv.Database(t)
	session(t, db, "SELECT pg_advisory_lock(7)")
	for _, names := range []*monitor.Dictionary{{}, monitor.NewDictionary()} {
		s, err := monitor.Take(t.Context(), db.Pool(t), monitor.WithDictionary(names))
		must.Succeed(t, err)
		if lock := find(t, s, pglock.Int64Key(7)); lock.Key != "@7" {
			t.Errorf("the key is shown as %q", lock.Key)
		}
	}
}

func TestNamesOptionsThatAreRefused(t *testing.T) {
	pool := testenv.Database(t).Pool(t)
	for want, option := range map[string]monitor.Option{
		"an Option is nil":            nil,
		"the dictionary is nil":       monitor.WithDictionary(nil),
		"the name of a role is empty": monitor.WithTrustedOwner("migrator", ""),
	} {
		if _, err := monitor.Take(t.Context(), pool, option); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Take: got error %v, want one that contains %q", err, want)
		}
	}
}

// A text in a query is believed if its hash is the key, wherever it is.
func TestNamesInQueriesAreFound(t *testing.T) {
	db := testenv.Database(t)
	session(t, db, "SELECT pg_advisory_lock(267906906, 0) AS t1 /* nightly */")
	session(t, db, "SELECT pg_advisory_lock(4045383493 - 4294967296) -- reports\n")
	session(t, db, lockNamed("invoice:42")+", 'invoice:42', 'invoice:43'")
	session(t, db, "SELECT pg_advisory_lock(hashtext('import''s'))")
	session(t, db, "SELECT pg_advisory_lock(12345) /* nightly */")
	session(t, db, lockNamed("forgotten"))
	startWaiter(t, db, lockNamed("forgotten")+" /* forgotten */")
	s := take(t, db.Pool(t))
	for _, c := range []struct {
		key  pglock.Key
		want string
	}{
		{pglock.PairKey(267906906, 0), "probably with_advisory_lock's lock \"nightly\""},
		{pglock.Int64Key(4045383493 - 1<<32), "probably django-pglocks' lock \"reports\""},
		{pglock.Int64Key(-983436554), "probably hashtext of \"import's\""},
		{pglock.NewKey("invoice:42"), "invoice:42"},
		{pglock.Int64Key(12345), "@12345"},
		{pglock.NewKey("forgotten"), "forgotten"},
	} {
		if got := find(t, s, c.key).Label(); got != c.want {
			t.Errorf("%v is shown as %q, want %q", c.key, got, c.want)
		}
	}
}

func TestNamesPgRepacksTableIsNamed(t *testing.T) {
	db := testenv.Database(t)
	session(t, db, `CREATE TABLE "a table" ()`, "SELECT pg_advisory_lock(16185446, (-2147483648 + c.oid::bigint)::int) "+
		"FROM pg_class c WHERE relname = 'a table'", "SELECT pg_advisory_lock(16185446, 2147483647)")
	var labels []string
	for _, lock := range take(t, db.Pool(t)).Locks {
		if lock.Database == db.Name() {
			labels = append(labels, lock.Label())
		}
	}
	requireEqual(t, "labels", labels, []string{
		`probably pg_repack of table public."a table"`, "probably pg_repack of the table with OID 4294967295"})
}

func TestNamesPglocksOwnMigrationsHaveAName(t *testing.T) {
	db := testenv.Database(t)
	const name = "pglock:migrations"
	session(t, db, lockNamed(name))
	if lock := find(t, take(t, db.Pool(t)), pglock.NewKey(name)); lock.Key != name {
		t.Errorf("the key is shown as %q", lock.Key)
	}
}
