package docs

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/keytemplate/keyvectors"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/migrations"
	"github.com/pglock-toolkit/pglock/pglock"
)

// publishedVector is a line of docs/key-vectors.json.
type publishedVector struct {
	Template string   `json:"template"`
	Values   []string `json:"values"`
	Name     string   `json:"name"`
	Key      string   `json:"key"`
}

// TestDocsKeyVectorsAreThoseOfGoAndSQL checks the published keys of names, and that the published templates are those
// whose names the tests of the generator check, in Go and in SQL.
func TestDocsKeyVectorsAreThoseOfGoAndSQL(t *testing.T) {
	var published []publishedVector
	must.Succeed(t, json.Unmarshal([]byte(read(t, filepath.Join(root, "docs", "key-vectors.json"))), &published))
	pool := testenv.Database(t).Pool(t)
	must.Succeed(t, migrations.Up(t.Context(), pool))
	for _, v := range published {
		inGo := pglock.NewKey(v.Name).Int64()
		var inSQL int64
		must.Succeed(t, pool.QueryRow(t.Context(), "SELECT pglock.key($1)", v.Name).Scan(&inSQL))
		if want := strconv.FormatInt(inGo, 10); v.Key != want || inSQL != inGo {
			t.Errorf("the key of %q is published as %s, in Go it is %s, and in SQL %d", v.Name, v.Key, want, inSQL)
		}
	}
	frozen, err := keyvectors.All()
	must.Succeed(t, err)
	for _, f := range frozen {
		if !slices.ContainsFunc(published, func(v publishedVector) bool {
			return v.Template == f.Template.Declaration() && slices.Equal(v.Values, f.Values) && v.Name == f.Name
		}) {
			t.Errorf("docs/key-vectors.json lacks %s with the values %q, which make %q", f.Template.Declaration(), f.Values, f.Name)
		}
	}
	if templates := slices.DeleteFunc(published, func(v publishedVector) bool { return v.Template == "" }); len(templates) != len(frozen) {
		t.Errorf("docs/key-vectors.json has %d templates, and there are %d", len(templates), len(frozen))
	}
}
