package lockgen

import (
	"fmt"
	"go/constant"
	"go/token"
	"go/types"
	"strings"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

// read makes an input of SQL as a front end does, with the types of parameters from a list.
func read(sql string, params ...Param) Input {
	in := Input{Package: "locks", Generator: "a test"}
	in.Queries, in.Comments = ReadSQL("q.sql", sql)
	for i := range in.Queries {
		in.Queries[i].Params = params
	}
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
	small    = Param{Number: 9, Name: "small", Type: "integer"}
	all      = []Param{id, nullable, price, matrix, name, again, slice, mood, small}
)

func TestMistakesAreErrorsWithALineAndAdvice(t *testing.T) {
	const keys = "-- pglock: key a:{x bigint}\n-- pglock: key t:{x text}\n-- pglock: key plain\n;\n"
	for sql, want := range map[string]string{
		keys + "-- name: A :exec\n-- pglock: lock a:{x=nr}\nSELECT 1;":              "q.sql:6: lock a:{x}: {x}: query A has no parameter nr; it has $1 id",
		keys + "-- name: A :exec\n-- pglock: lock a:{x=$17}\nSELECT 1;":             "q.sql:6: lock a:{x}: {x}: query A has no parameter $17",
		keys + "-- name: A :exec\n-- pglock: lock t:{x=name}\nSELECT 1;":            "has several parameters name: write a number, as in {x=$5}",
		keys + "-- name: A :exec\n-- pglock: lock t:{x=note}\nSELECT 1;":            "may get NULL for it, and a lock's name needs a value: use @note (not sqlc.narg)",
		keys + "-- name: A :exec\n-- pglock: lock a:{x=price}\nSELECT 1;":           `type "pg_catalog.numeric" cannot be part of a key: 1.0 and 1.00 are equal`,
		keys + "-- name: A :exec\n-- pglock: lock a:{x=matrix}\nSELECT 1;":          "array of arrays",
		keys + "-- name: A :exec\n-- pglock: lock t:{x=id}\nSELECT 1;":              "it is bigint here, and text in the key: cast it (@id::text)",
		keys + "-- name: A :exec\n-- pglock: lock t:{x=mood}\nSELECT 1;":            "an enum is cast twice: (@mood::text)::mood",
		keys + "-- name: A :exec\n-- pglock: lock a:{x=id} mx=2s\nSELECT 1;":        `q.sql:6: lock a:{x}: unknown option "mx=2s": the options are`,
		keys + "-- name: A :exec\n-- pglock: lock a:{x bigint}\nSELECT 1;":          "the type of {x} is the key's",
		keys + "-- name: A :exec\n-- pglock: lock plian\nSELECT 1;":                 "q.sql:6: lock plian is of no key: if it is misspelled, correct it; if it is meant, declare it, as in -- pglock: key plian",
		keys + "-- name: A :exec\n-- pglock: lock b:{x=id}\nSELECT 1;":              "declare it, as in -- pglock: key b:{x bigint}",
		keys + "-- name: A :exec\n-- pglock: lock a:{id} try\nSELECT 1;":            "q.sql:6: lock a:{id} is of no key: its parameters have other names there, so write a:{x=id} try",
		keys + "-- name: A :copyfrom\n-- pglock: lock plain\nSELECT 1;":             "is :copyfrom",
		keys + "-- name: A :exec\nSELECT 1;\n-- pglock: lock plain":                 "q.sql:7: lock plain belongs to no query",
		keys + "-- name: A :exec\n-- pglock lock a:{x=id}\nSELECT 1;":               `"pglock lock a:{x=id}" is misspelled, so it would be ignored: write "-- pglock: lock a:{x=id}"`,
		keys + "-- name: A :exec\n-- pg-lok: lock plain\nSELECT 1;":                 `"pg-lok: lock plain" is misspelled`,
		keys + "-- name: A :exec\n-- pglock: lok plain\nSELECT 1;":                  `"lok" is neither key nor lock`,
		keys + "-- name: A :exec\nSELECT 1 -- pglock: lock plain\n;":                `q.sql:6: the comment "pglock: lock plain" does not begin its line`,
		keys + "-- name: A :exec\nSELECT 1; -- pglok: lock plain\n":                 `q.sql:6: "pglok: lock plain" is misspelled`,
		keys + "-- name: A :exec\nSELECT E'\\'', $$'$$ /*\npglock: lock plain\n*/;": `q.sql:6: the comment "pglock: lock plain" does not begin its line, or spans several lines`,
		keys + "-- name: A :exec\nSELECT 1;\n-- name: A :exec\nSELECT 1;":           "there are two queries A",
		"-- pglock: key a:{id}\n":                                                                 "q.sql:1: key \"a:{id}\": {id} has no type: write {id bigint}",
		"-- pglock: key a:{id bigint} color=red\n":                                                `key a:{id}: unknown option "color=red": a key's one option is func=Name`,
		"-- pglock: key a:{id bigint}\n-- pglock: key a:{id text}\n":                              "q.sql:2: key a:{id} is declared at q.sql:1, too",
		"-- pglock: key a:{id bigint}\n-- pglock: key a:{nr bigint}\n":                            "q.sql:2: a:{nr} and a:{id} (at q.sql:1) could make the same name",
		"-- pglock: key {id bigint}\n":                                                            `"" is not the name of an exported function`,
		"-- pglock: key tx\n":                                                                     "has a function or constant Tx of its own",
		"-- pglock: key a-b\n-- pglock: key a/b\n":                                                "q.sql:2: key a/b: the package has a function or constant AB of key a-b: give it another name, with -- pglock: key a/b func=Name",
		"-- pglock: key a:{x integer}\n-- name: A :exec\n-- pglock: lock a:{x=id}\nSELECT 1;":     "q.sql:3: lock a:{x}: {x}: it is bigint here, and integer in the key",
		keys + "-- name: A :exec\n-- pglock: lock plain try\n-- pglock: lock a:{x=id}\nSELECT 1;": "q.sql:7: the locks of query A differ in try",
		"-- name: A :exec\nSELECT pg_advisory_lock(1);":                                           "query A calls pg_advisory_lock, whose lock outlives the transaction",
		"-- name: A :exec\nSELECT pg_try_advisory_lock_shared(1);":                                "calls pg_try_advisory_lock_shared",
		keys + "-- name: A :exec\n-- pglock: lock a:{x=many}\nSELECT id IN ($7), 'any($7)';":      "it is a sqlc.slice, which is an array only as the argument of ANY: write = ANY(@many::bigint[])",
		"-- pglock: key a -- \u202eone\n":                                                         "contains invisible characters",
	} {
		_, err := Generate(read(sql, all...))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\ngot  %v\nwant %s", sql, err, want)
		}
	}
	if _, err := Generate(Input{Package: "main"}); err == nil || !strings.Contains(err.Error(), "want the name of a Go package") {
		t.Errorf("package main: %v", err)
	}
}

func TestWhatLooksLikeAMistakeAndIsNone(t *testing.T) {
	for _, sql := range []string{
		"-- pglock is great\n-- name: A :exec\nSELECT 'pg_advisory_lock(1)' -- or pg_advisory_lock\n;",
		"-- pglock lock functions are explained elsewhere\n-- name: A :exec\nSELECT 1;",
		"-- please: lock the door; the plain key of it\n-- name: A :exec\nSELECT 1;",
		"-- name: A :exec\nSELECT $x$ pg_advisory_lock(1) $x$, pg_advisory_xact_lock(1);",
		"-- PGLOCK : KEY a:{id bigint}\n-- name: A :exec\n--pglock:lock a:{id=small}\nSELECT 1;",
		"-- pglock: key a:{id bigint}\n/* name: A :exec */\n/* pglock: lock a:{id=many} */\nSELECT id = aNy ( $7 );",
	} {
		if _, err := Generate(read(sql, all...)); err != nil {
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

// Of ten thousand keys that could all be the same name, each pair is a mistake.
func TestMistakesWithoutEndAreCutShort(t *testing.T) {
	var sql strings.Builder
	for i := range 10 * mostProblems {
		fmt.Fprintf(&sql, "-- pglock: key {a text}%d func=F%d\n-- name: Q%d :exec\n-- pglock: lock x%d\nSELECT 1;\n", i, i, i, i)
	}
	in := Input{Package: "locks"}
	must.Succeed(t, in.Read("q.sql", sql.String()))
	if _, err := Generate(in); err == nil || strings.Count(err.Error(), "\n") != mostProblems || !strings.HasSuffix(err.Error(), "perhaps more") {
		t.Errorf("the error has %d bytes", len(fmt.Sprint(err)))
	}
}

func TestGeneratedCode(t *testing.T) {
	in := read("-- pglock: key user-id:{type text}:{pglock bigint}:{_x uuid}:{invoice_id integer}:{at timestamptz}\n"+
		"-- pglock: key {t text}:日本語 func=Order -- it's one \\ order\n-- pglock: key b\n"+
		"-- name: A :exec\n-- pglock: lock {t=$5}:日本語 shared\n-- pglock: lock b\nSELECT 1;\n"+
		"-- name: B :exec\n-- pglock: lock b max_wait=1500ms\nSELECT 1;\n", all...)
	in.Texts = true
	code, err := Generate(in)
	must.Succeed(t, err)
	for _, want := range []string{
		"// Code generated by a test. DO NOT EDIT.\n",
		"func UserID(typeValue string, pglockValue int64, x [16]byte, invoiceID int32, at time.Time) pglock.Key {\n",
		"\treturn queries.Key(\"user-id:{type text}:{pglock bigint}:{_x uuid}:{invoice_id integer}:{at timestamptz}\", typeValue, pglockValue, x, invoiceID, at)\n",
		"// Order returns the key {t}:日本語: it's one \\ order.\n//\n// It is taken by A (shared).\n",
		`, Locks: []string{"{t=$5}:日本語 shared", "b"}},`,
		`, Locks: []string{"b max_wait=1.5s"}},`,
		"// ASQL is the text of query A.\nconst ASQL = `-- name: A :exec\nSELECT 1\n`\n",
	} {
		if !strings.Contains(string(code), want) {
			t.Errorf("it lacks %s:\n%s", want, code)
		}
	}
}

func TestATextWithCarriageReturnsStaysWhole(t *testing.T) {
	for _, text := range []string{"SELECT 'a\rb'", "SELECT `a`", "SELECT '\x00\xff\ufeff'"} {
		if value, err := types.Eval(token.NewFileSet(), nil, token.NoPos, goText(text)); err != nil || constant.StringVal(value.Value) != text {
			t.Errorf("%q is not %s: %v", text, goText(text), err)
		}
	}
}
