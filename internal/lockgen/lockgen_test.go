package lockgen

import (
	"bytes"
	"fmt"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/monitor"
)

// read makes an input of SQL as a front end does, with the types of parameters from a list.
func read(sql string, params ...Param) Input {
	in := Input{Options: Options{Package: "locks", Generator: "a test"}, Comments: InlineComments("q.sql", sql)}
	q := Query{At: Position{File: "q.sql", Line: 1}, Params: params, Command: ":exec"}
	for i, line := range strings.Split(sql, "\n") {
		at := Position{File: "q.sql", Line: i + 1}
		if name, ok := strings.CutPrefix(line, "-- name: "); ok {
			q.Name, q.Command, _ = strings.Cut(name, " ")
			continue
		}
		if text, ok := strings.CutPrefix(line, "--"); ok {
			q.Comments = append(q.Comments, Comment{Text: text, At: at})
			continue
		}
		if q.SQL += line; strings.HasSuffix(line, ";") {
			q.Text = fmt.Sprintf("-- name: %s %s\n%s\n", q.Name, q.Command, q.SQL)
			in.Queries = append(in.Queries, q)
			q = Query{At: at, Params: params, Command: ":exec"}
		}
	}
	in.Comments = append(in.Comments, q.Comments...)
	return in
}

var (
	id       = Param{Number: 1, Name: "id", Type: "pg_catalog.int8"}
	nullable = Param{Number: 2, Name: "note", Type: "text", Nullable: true}
	price    = Param{Number: 3, Name: "price", Type: "pg_catalog.numeric"}
	matrix   = Param{Number: 4, Name: "matrix", Type: "int4", Dims: 2}
	name     = Param{Number: 5, Name: "name", Type: "text"}
	again    = Param{Number: 6, Name: "name", Type: "text"}
	slice    = Param{Number: 7, Name: "many", Type: "pg_catalog.int8", Slice: true}
	mood     = Param{Number: 8, Name: "mood", Type: "mood", Nullable: true}
	all      = []Param{id, nullable, price, matrix, name, again, slice, mood}
)

var manyParams = func() (text string) {
	for i := range 101 {
		text += fmt.Sprintf("{p%d bigint}:", i)
	}
	return text
}()

func TestMistakesAreErrorsWithALineAndAdvice(t *testing.T) {
	for sql, want := range map[string]string{
		"-- name: A :exec\n-- pglock: lock a:{nr}\n;":                                                  "q.sql:2: lock a:{nr}: {nr}: query A has no parameter nr; it has $1 id",
		"-- name: A :exec\n-- pglock: lock a:{x=$17}\n;":                                               "q.sql:2: lock a:{x}: {x}: query A has no parameter $17",
		"-- name: A :exec\n-- pglock: lock a:{name}\n;":                                                "has several parameters name: write a number, as in {name=$5}",
		"-- name: A :exec\n-- pglock: lock a:{note}\n;":                                                "may get NULL for it, and a lock's name needs a value: use @note (not sqlc.narg)",
		"-- name: A :exec\n-- pglock: lock a:{price}\n;":                                               `type "pg_catalog.numeric" cannot be part of a key: 1.0 and 1.00 are equal`,
		"-- name: A :exec\n-- pglock: lock a:{matrix}\n;":                                              "array of arrays",
		"-- name: A :exec\n-- pglock: lock a:{id text}\n;":                                             "its type is bigint, not text",
		"-- name: A :exec\n-- pglock: lock a:{id} mx=2s\n;":                                            `q.sql:2: lock a:{id}: unknown option "mx=2s": the options are`,
		"-- name: A :exec\n-- pglock: lock a:{nr}\nSELECT id=@nr;":                                     "query A has no parameter nr: PostgreSQL reads =@ as one operator, so write a space before @nr",
		"-- name: A :copyfrom\n-- pglock: lock a:{id}\n;":                                              "is :copyfrom",
		"-- name: A :exec\n;\n-- pglock: lock a:{id}":                                                  "q.sql:3: lock a:{id} belongs to no query",
		"-- name: A :exec\n-- pglock lock a:{id}\n;":                                                   `"pglock lock a:{id}" lacks a colon: write "-- pglock: lock a:{id}"`,
		"-- name: A :exec\n-- pglock: lok a:{id}\n;":                                                   `"lok" is neither key nor lock`,
		"-- name: A :exec\n-- pglock: lock a:{x=$5}b\n;":                                               "can itself contain",
		"-- name: A :exec\nSELECT 1 -- pglock: lock a\n;":                                              `q.sql:2: the comment "pglock: lock a" does not begin its line`,
		"-- name: A :exec\nSELECT 1; -- pglok: lock a\n":                                               `q.sql:2: "pglok: lock a" is misspelled`,
		"-- name: A :exec\nSELECT E'\\'', $$'$$ /*\npglock: lock a\n*/;":                               `q.sql:2: the comment "pglock: lock a" does not begin its line, or spans several lines`,
		"-- name: A :exec\n;\n-- name: A :exec\n;":                                                     "there are two queries A",
		"-- pglock: key a:{id}\n":                                                                      "q.sql:1: key a:{id}: {id} has no type: write {id bigint}",
		"-- pglock: key a:{id=x bigint}\n":                                                             "a key declares its own parameters",
		"-- pglock: key a:{id bigint[]}\n":                                                             "a key is one lock",
		"-- pglock: key a:{id bigint} color=red\n":                                                     `key a:{id}: unknown option "color=red"`,
		"-- pglock: key a:{id text} names=1..9\n":                                                      "only the names of a key with one integer",
		"-- pglock: key a:{id bigint} names=9..1\n":                                                    "want a range",
		"-- pglock: key a:{id bigint}\n-- pglock: key a:{id text}\n":                                   "q.sql:2: key a:{id} is already declared at q.sql:1",
		"-- pglock: key a:{id bigint}\n-- pglock: key a:{nr bigint}\n":                                 "q.sql:2: a:{nr} and a:{id} (at q.sql:1) can both make the name \"a:0\"",
		"-- pglock: key {id bigint}\n":                                                                 `"" is not the name of an exported function`,
		"-- pglock: key tx\n":                                                                          "has another Tx",
		"-- pglock: key a-b\n-- pglock: key a/b\n":                                                     "keys a/b and a-b (at q.sql:1) would both be function AB",
		"-- pglock: key collides-1\n-- pglock: key collides-2\n":                                       "are different names of one lock",
		"-- pglock: key a:{id integer}\n-- name: A :exec\n-- pglock: lock a:{id}\n;":                   "q.sql:3: lock a:{id}: {id} is bigint here and integer at q.sql:1",
		"-- name: A :exec\n-- pglock: lock a:{x=$1}\n;\n-- name: B :exec\n-- pglock: lock a:{x=$5}\n;": "q.sql:5: lock a:{x}: {x} is text here and bigint at q.sql:2",
		"-- name: A :exec\n-- pglock: lock a:{id} try\n-- pglock: lock b:{id}\n;":                      "q.sql:3: the locks of query A differ in try",
		"-- name: A :exec\nSELECT pg_advisory_lock(1);":                                                "query A calls pg_advisory_lock, whose lock outlives the transaction",
		"-- name: A :exec\nSELECT pg_try_advisory_lock_shared(1);":                                     "calls pg_try_advisory_lock_shared",
		"-- pglock: key a func=FooBar\n-- pglock: key b func=Foo_bar\n":                                "would both be function foo_bar in SQL",
		"-- pglock: key a:{parts text} func=PglockKey\n":                                               "are the generator's own",
		"-- pglock: key a func=A" + strings.Repeat("b", 63) + "\n":                                     "PostgreSQL's names have at most 63 bytes",
		"-- pglock: key a:{" + strings.Repeat("b", 64) + " text}\n":                                    "PostgreSQL's names have at most 63 bytes",
		"-- pglock: key a:" + manyParams + "\n":                                                        "has 101 parameters: a function of PostgreSQL has at most 100",
		"-- name: A :exec\n-- pglock: lock a:{x=many}\nSELECT id IN ($7), 'any($7)';":                  "it is a sqlc.slice, which is an array only for pgx, as the argument of ANY: write = ANY(@many::int8[])",
		"-- name: A :exec\n-- pglock: lock a:{mood}\n;":                                                "if it is an enum, write (@mood::text)::mood, which also keeps NULL away",
		"-- pglock: key a -- \u202eone\n":                                                              "contains invisible characters",
		"-- pglock: key a owner=\x1b[2J\n":                                                             "contains invisible characters",
	} {
		restore := keyNumber
		keyNumber = func(name string) int64 {
			if strings.HasPrefix(name, "collides") {
				return 7
			}
			return restore(name)
		}
		_, err := Generate(read(sql, all...))
		keyNumber = restore
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\ngot  %v\nwant %s", sql, err, want)
		}
	}
}

func TestWhatLooksLikeAMistakeAndIsNone(t *testing.T) {
	for _, sql := range []string{
		"-- pglock is great\n-- name: A :exec\nSELECT 'pg_advisory_lock(1)' -- or pg_advisory_lock\n;",
		"-- name: A :exec\nSELECT $x$ pg_advisory_lock(1) $x$, pg_advisory_xact_lock(1);",
		"-- name: A :exec\nSELECT pg_advisory_xact_lock(1); -- pglock: allow (the old service takes this lock, too)",
		"-- name: A :exec\n-- pglock: allow: the old service takes this lock, too\nSELECT pg_advisory_xact_lock(1);",
		"-- PGLOCK : KEY a:{id integer}\n-- name: A :exec\n--pglock:lock a:{id=$9}\n;",
		"-- name: A :exec\n-- pglock: lock a:{id}\n;\n-- name: B :exec\n-- pglock: lock a:{id=$9} shared\n;",
		"-- name: A :exec\n-- pglock: lock a:{id=many}\nSELECT id = aNy ( $7 );",
	} {
		if _, err := Generate(read(sql, append(all, Param{Number: 9, Name: "small", Type: "integer"})...)); err != nil {
			t.Errorf("%s\n%v", sql, err)
		}
	}
}

func TestAllMistakesAreReportedAtOnce(t *testing.T) {
	_, err := Generate(read("-- pglock: key b:{id}\n-- pglock: key a:{id}\n"))
	if err == nil || strings.Count(err.Error(), "has no type") != 2 || !strings.HasPrefix(err.Error(), "q.sql:1: ") {
		t.Errorf("the error is %v", err)
	}
}

func TestOptionsThatDoNotExistAreErrors(t *testing.T) {
	for text, want := range map[string]string{
		`{"pakage": "x"}`:           `options of the plugin: unknown option "pakage": the options are package, sql_package, sql_schema and require_keys`,
		`{"require_keys": "yes"}`:   "option require_keys: want true or false",
		`{"package": ["x"]}`:        "option package: want a text",
		`[]`:                        "options of the plugin: want a map",
		`{"package": "2x"}`:         "name of a Go package",
		`{"sql_package": "pgx/v4"}`: "want pgx/v5 or database/sql",
		`{"sql_schema": "pglock"}`:  "pglock's own",
		`{"sql_schema": "x; DROP"}`: "without quotes",
		`{"sql_schema": "public"}`:  "belongs to another role",
	} {
		options, err := ParseOptions([]byte(text))
		if err == nil {
			if options.Package == "" {
				options.Package = "locks"
			}
			_, err = Generate(Input{Options: options})
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is %v, want %q", text, err, want)
		}
	}
}

func TestNamesOfParametersAndFunctionsAreGoNames(t *testing.T) {
	files, err := Generate(read("-- pglock: key user-id:{type text}:{pglock bigint}:{_x bigint}:{invoice_id integer}:{key_user_id text}\n" +
		"-- pglock: key {t text}:日本語 func=Order owner=ops -- it's one \\ order\n"))
	if err != nil {
		t.Fatal(err)
	}
	got := contents(files, keysFile)
	for _, want := range []string{
		"func UserID(typeValue string, pglockValue int64, x int64, invoiceID int32, keyUserIDValue string) pglock.Key",
		"// Order returns the key {t}:日本語: it's one \\ order.\n//\n// Owner: ops.\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("it lacks %s:\n%s", want, got)
		}
	}
}

// TestLocksAreTyped shows all that the package says about locks: no text remains to be read when a program runs.
func TestLocksAreTyped(t *testing.T) {
	ids := Param{Number: 7, Name: "ids", Type: "integer", Dims: 1}
	files, err := Generate(read("-- pglock: key a:{id bigint}:{name text}:z func=Thing\n"+
		"-- name: A :exec\n-- pglock: lock a:{id=ids}:{name=$5}:z shared\n-- pglock: lock b\n;\n"+
		"-- name: B :exec\n-- pglock: lock b max_wait=1500ms savepoint\n;\n"+
		"-- name: C :exec\n-- pglock: lock b max_wait=1h\n;\n"+
		"-- name: D :exec\n-- pglock: lock b try\n;\n"+
		"-- name: E :exec\n-- pglock: lock b max_wait=1000001ns\n;\n", append(all, ids)...))
	if err != nil {
		t.Fatal(err)
	}
	got := contents(files, queriesFile)
	for _, want := range []string{
		`import (
	"time"

	"github.com/pglock-toolkit/pglock/pglock/querylock"
)

// If this is unknown, the module pglock is older than the generator: update it.
const _ = querylock.Version1

// The templates of keys.
var (
	keyB     = querylock.Template{{Text: "b"}}
	keyThing = querylock.Template{
		{Text: "a:", Param: "id", Type: querylock.Int},
		{Text: ":", Param: "name", Type: querylock.Text},
		{Text: ":z"},
	}
)
`, `, Locks: []querylock.Lock{
			{Key: keyThing, Args: []int{7, 5}, Each: 1, Shared: true},
			{Key: keyB},
		}},
`, ", MaxWait: 1500 * time.Millisecond, Savepoint: true, Locks: ", ", MaxWait: 3600 * time.Second, Locks: ", ", Try: true, Locks: ",
		", MaxWait: 1000001 * time.Nanosecond, Locks: ",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("it lacks %s:\n%s", want, got)
		}
	}
}

func TestSQLHasTheHelpersThatItsKeysNeed(t *testing.T) {
	for sql, want := range map[string]string{
		"-- name: A :exec\nSELECT 1;":                 "",
		"-- pglock: key a\n":                          "pglock_key",
		"-- pglock: key a:{x integer}\n":              "pglock_key pglock_value(value bigint)",
		"-- pglock: key a:{x text}:{y timestamptz}\n": "pglock_key pglock_value(value text) pglock_value(value timestamptz)",
		"-- pglock: key a:{x uuid}\n-- pglock: key b:{y boolean}:{z bigint}\n": "pglock_key pglock_value(value bigint) " +
			"pglock_value(value boolean) pglock_value(value uuid)",
	} {
		files, err := Generate(read(sql))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, match := range regexp.MustCompile(`FUNCTION locks\.(pglock_key\b|pglock_value\(value [\w.]+\))`).FindAllStringSubmatch(contents(files, sqlFile), -1) {
			if !slices.Contains(got, strings.Replace(match[1], "pg_catalog.", "", 1)) {
				got = append(got, strings.Replace(match[1], "pg_catalog.", "", 1))
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s\ngot  %q\nwant %q", sql, got, want)
		}
	}
}

func contents(files []File, name string) string {
	for _, file := range files {
		if file.Name == name {
			return string(file.Contents)
		}
	}
	return ""
}

func TestATextWithCarriageReturnsStaysWhole(t *testing.T) {
	for _, text := range []string{"SELECT 'a\rb'", "SELECT `a`", "SELECT '\x00\xff\ufeff'"} {
		if value, err := types.Eval(token.NewFileSet(), nil, token.NoPos, goText(text)); err != nil || constant.StringVal(value.Value) != text {
			t.Errorf("%q is not %s: %v", text, goText(text), err)
		}
	}
}

// TestAThousandQueries generates the code of a large project. It must parse, the monitor must be able to read its
// names, and the log shows how long it took.
func TestAThousandQueries(t *testing.T) {
	var sql strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&sql, "-- name: Query%d :exec\n-- pglock: lock thing%d:{id}:of:{x=$5}\n-- pglock: lock all:{id} shared\nSELECT %[1]d;\n", i, i)
		fmt.Fprintf(&sql, "-- name: Other%d :exec\n-- pglock: lock kind:{id}:k%d\n-- pglock: lock n%[1]d:{id}\nSELECT %[1]d;\n", i, i)
	}
	in := read(sql.String(), all...)
	start := time.Now()
	files, err := Generate(in)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d queries took %v", len(in.Queries), time.Since(start))
	for _, name := range []string{keysFile, queriesFile} {
		if _, err := parser.ParseFile(token.NewFileSet(), name, contents(files, name), parser.AllErrors); err != nil {
			t.Error(err)
		}
	}
	names, err := monitor.ReadDictionary(bytes.NewReader([]byte(contents(files, namesFile))))
	if err != nil || names.Len() < 100_000 {
		t.Errorf("the monitor reads %d names: %v", names.Len(), err)
	}
}
