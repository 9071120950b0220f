package sqlcplugin

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
)

// requestOf is a request of sqlc's with one query, in JSON.
func requestOf(options, comment string) string {
	return fmt.Sprintf(`{"settings": {"engine": "postgresql", "queries": ["sql"], "codegen": {"out": "gen/locks", "plugin": "pglock"}},
		"queries": [{"text": "SELECT 1", "name": "One", "cmd": ":one", "filename": "a.sql", "comments": [%q],
			"params": [{"number": 1, "column": {"name": "id", "not_null": true, "type": {"schema": "pg_catalog", "name": "int8"}}}]}],
		"plugin_options": %q}`, comment, base64.StdEncoding.EncodeToString([]byte(options)))
}

func files(sql string) fstest.MapFS { return fstest.MapFS{"sql/a.sql": {Data: []byte(sql)}} }

// below returns the files in a directory.
func below(dir string, all ...fstest.MapFS) fstest.MapFS {
	moved := fstest.MapFS{}
	for _, files := range all {
		for name, file := range files {
			moved[dir+"/"+name] = file
		}
	}
	return moved
}

func config(text string) fstest.MapFS {
	return fstest.MapFS{"sqlc.yaml": {Data: []byte(text)}, "sql/a.sql": {Data: []byte("\n-- name: One :one\n-- pglock: lock a:{nr}\nSELECT 1;\n")}}
}

func TestRequestsInJSON(t *testing.T) {
	var out bytes.Buffer
	if err := Run(strings.NewReader(requestOf("", " pglock: lock a:{id}")), &out, nil); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(out.String(), `{"files":[{"name":"locks.go","contents":"`) {
		t.Errorf("got %.100s", out.String())
	}
}

func TestMistakesInRequests(t *testing.T) {
	const yaml = "version: \"2\"\nplugins:\n- name: pglock\nsql:\n- engine: postgresql\n  gen: {go: {%s}}\n  codegen:\n  - plugin: %s\n"
	for name, c := range map[string]struct {
		request string
		dir     fstest.MapFS
		want    string
	}{
		"an option":      {requestOf(`{"packag": "x"}`, ""), nil, `unknown option "packag"`},
		"another engine": {strings.ReplaceAll(requestOf("", ""), "postgresql", "mysql"), nil, `the engine is "mysql"`},
		"no JSON":        {"{", nil, "as JSON"},
		"no protobuf":    {"\x0a\xff", nil, "as protobuf"},
		"a line":         {requestOf("", " pglock: lock a:{nr}"), config(""), "sql/a.sql:3: lock a:{nr}: {nr}"},
		"no line":        {requestOf("", " pglock: lock a:{nr}"), nil, "a.sql: query One: lock a:{nr}: {nr}"},
		"misspelled":     {requestOf("", " pglok: lock a:{id}"), nil, `a.sql: query One: "pglok: lock a:{id}" is misspelled`},
		"misspelled behind the last query": {requestOf("", " pglock: lock a:{id}"), files("-- name: One :one\n-- pglock: lock a:{id}\nSELECT 1;\n-- pglok: lock a:{id}\n"),
			`sql/a.sql:4: "pglok: lock a:{id}" is misspelled`},
		"behind a query": {requestOf("", " pglock: lock a:{id}"), files("-- name: One :one\n-- pglock: lock a:{id}\nSELECT 1; -- pglock: lock b\n"),
			`sql/a.sql:3: the comment "pglock: lock b" does not begin its line`},
		"prepared, elsewhere": {requestOf("", " pglock: lock a:{id}"), below("app/db", config(fmt.Sprintf(yaml, "emit_prepared_queries: true", "pglock"))), "emit_prepared_queries is true"},
		"a line, elsewhere":   {requestOf("", " pglock: lock a:{nr}"), below("app", below("db", config(fmt.Sprintf(yaml, "", "pglock"))), below("copy", config(""))), "app/db/sql/a.sql:3: lock a:{nr}: {nr}"},
		"a line, in one of two places": {requestOf("", " pglock: lock a:{nr}"), below("app", below("db", config(fmt.Sprintf(yaml, "", "pglock"))), below("db2", config(fmt.Sprintf(yaml, "", "pglock")))),
			"a.sql: query One: lock a:{nr}: {nr}"},
		"prepared": {requestOf("", " pglock: lock a:{id}"), config(fmt.Sprintf(yaml, "emit_prepared_queries: true", "pglock")), "emit_prepared_queries is true"},
		"prepared, JSON": {requestOf("", " pglock: lock a:{id}"), fstest.MapFS{"sqlc.json": {Data: []byte(
			`{"sql": [{"gen": {"go": {"emit_prepared_queries": true}}, "codegen": [{"plugin": "pglock"}]}]}`)}}, "emit_prepared_queries is true"},
		"prepared, but no lock":    {requestOf("", ""), config(fmt.Sprintf(yaml, "emit_prepared_queries: true", "pglock")), "belongs to no query"},
		"prepared, another plugin": {requestOf("", " pglock: lock a:{id}"), config(fmt.Sprintf(yaml, "emit_prepared_queries: true", "pglock2")), "belongs to no query"},
		"not prepared":             {requestOf("", " pglock: lock a:{id}"), config(fmt.Sprintf(yaml, "emit_prepared_queries: false", "pglock")), "belongs to no query"},
		"commented out":            {requestOf("", " pglock: lock a:{id}"), config(fmt.Sprintf(yaml, "# emit_prepared_queries: true", "pglock")), "belongs to no query"},
	} {
		var out bytes.Buffer
		var err error
		if c.dir == nil {
			err = Run(strings.NewReader(c.request), &out, nil)
		} else {
			err = Run(strings.NewReader(c.request), &out, c.dir)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

// FuzzProtobuf checks that input that is not a request does no harm.
func FuzzProtobuf(f *testing.F) {
	query := appendBytes(nil, 2, []byte("One"))
	query = appendBytes(query, 5, appendBytes([]byte{8, 1}, 2, appendBytes([]byte{0x18, 1}, 1, []byte("id"))))
	f.Add(appendBytes(appendBytes(nil, 3, query), 1, appendBytes(nil, 2, []byte("postgresql"))))
	f.Add(binary.AppendUvarint([]byte{0x1a}, 1<<63))
	f.Fuzz(func(_ *testing.T, message []byte) {
		_, _ = decode(message) // it must return
	})
}
