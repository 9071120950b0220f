package docs

import (
	"encoding/json"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
)

// TestDocsKeyVectorsAreThoseOfGoAndSQL checks the published keys of names. Package querylock checks the templates.
func TestDocsKeyVectorsAreThoseOfGoAndSQL(t *testing.T) {
	var published []struct{ Name, Key string }
	must.Succeed(t, json.Unmarshal([]byte(read(t, filepath.Join(root, "docs", "key-vectors.json"))), &published))
	pool := testenv.Installed(t).Pool(t)
	for _, v := range published {
		inGo := pglock.NewKey(v.Name).Int64()
		inSQL := must.One[int64](t, pool, "SELECT pglock.key($1)", v.Name)
		if want := strconv.FormatInt(inGo, 10); v.Key != want || inSQL != inGo {
			t.Errorf("the key of %q is published as %s, in Go it is %s, and in SQL %d", v.Name, v.Key, want, inSQL)
		}
	}
}
