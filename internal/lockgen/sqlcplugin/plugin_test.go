package sqlcplugin

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

// requestOf is a request of sqlc's with one query, in JSON.
func requestOf(options, comment string) string {
	return fmt.Sprintf(`{"settings": {"engine": "postgresql", "queries": ["sql"], "codegen": {"out": "gen/locks", "plugin": "pglock"}},
		"queries": [{"text": "SELECT 1", "name": "One", "cmd": ":one", "filename": "a.sql", "comments": [" pglock: key a:{id bigint}", %q],
			"params": [{"number": 1, "column": {"name": "id", "not_null": true, "type": {"schema": "pg_catalog", "name": "int8"}}}]}],
		"plugin_options": %q}`, comment, base64.StdEncoding.EncodeToString([]byte(options)))
}

func TestRequestsInJSON(t *testing.T) {
	var out bytes.Buffer
	must.Succeed(t, Run(strings.NewReader(requestOf("", " pglock: lock a:{id}")), &out, fstest.MapFS{}))
	if !strings.HasPrefix(out.String(), `{"files":[{"name":"locks.go","contents":"`) {
		t.Errorf("got %.100s", out.String())
	}
}

func TestMistakesInRequests(t *testing.T) {
	const first = "-- pglock: key a:{id bigint}\n-- name: One :one\n"
	for name, c := range map[string]struct{ request, file, want string }{
		"an option":                        {requestOf(`{"packag": "x"}`, ""), "", `unknown field "packag" (its one option is package`},
		"a package":                        {requestOf(`{"package": "2x"}`, ""), "", "name of a Go package"},
		"another engine":                   {strings.ReplaceAll(requestOf("", ""), "postgresql", "mysql"), "", `the engine is "mysql"`},
		"protobuf":                         {"\x0a\xff", "", "format: json"},
		"a line":                           {requestOf("", " pglock: lock a:{id=nr}"), first + "-- pglock: lock a:{id=nr}\nSELECT 1;\n", "sql/a.sql:3: lock a:{id}: {id}"},
		"no line":                          {requestOf("", " pglock: lock a:{id=nr}"), "", "a.sql: query One: lock a:{id}: {id}"},
		"misspelled":                       {requestOf("", " pglok: lock a:{id}"), "", `a.sql: query One: "pglok: lock a:{id}" is misspelled`},
		"misspelled behind the last query": {requestOf("", " pglock: lock a:{id}"), first + "-- pglock: lock a:{id}\nSELECT 1;\n-- pglok: lock a:{id}\n", `sql/a.sql:5: "pglok: lock a:{id}" is misspelled`},
		"behind a query":                   {requestOf("", " pglock: lock a:{id}"), first + "-- pglock: lock a:{id}\nSELECT 1; -- pglock: lock b\n", `sql/a.sql:4: the comment "pglock: lock b" does not begin its line`},
		"inside, in no file":               {strings.Replace(requestOf("", ""), "SELECT 1", "SELECT 1 -- pglock: lock b", 1), "", `query One: the comment "pglock: lock b" does not begin its line`},
	} {
		var out bytes.Buffer
		dir := fstest.MapFS{}
		if c.file != "" {
			dir["sql/a.sql"] = &fstest.MapFile{Data: []byte(c.file)}
		}
		err := Run(strings.NewReader(c.request), &out, dir)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}
