package querylock_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/keytemplate"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/querylock"
)

// TestNamesAreFrozen makes each published name, and recognizes it.
func TestNamesAreFrozen(t *testing.T) {
	text, err := os.ReadFile("../../docs/key-vectors.json")
	must.Succeed(t, err)
	var vectors []struct {
		Template, Name, Key string
		Values              []string
	}
	must.Succeed(t, json.Unmarshal(text, &vectors))
	made := 0
	for _, v := range vectors {
		if v.Template == "" {
			continue
		}
		made++
		template, err := keytemplate.Parse(v.Template)
		must.Succeed(t, err)
		var values []any
		for i, p := range template.Params() {
			values = append(values, valueOf(t, p.Type, v.Values[i]))
		}
		set := querylock.NewSet([]string{v.Template}, nil)
		if key := set.Key(v.Template, values...); key.Name() != v.Name || strconv.FormatInt(key.Int64(), 10) != v.Key {
			t.Errorf("%s of %q: got %q and %d, want %q and %s", template, v.Values, key.Name(), key.Int64(), v.Name, v.Key)
		}
		if label := set.Label(v.Name); label != template.String() {
			t.Errorf("the label of %q is %s, want %s", v.Name, label, template)
		}
	}
	if made < 20 {
		t.Errorf("there are %d vectors", made)
	}
}

func valueOf(t *testing.T, typ keytemplate.Type, text string) any {
	t.Helper()
	var value any
	var err error
	switch typ {
	case keytemplate.Text:
		return text
	case keytemplate.Boolean:
		value, err = strconv.ParseBool(text)
	case keytemplate.UUID:
		var u pgtype.UUID
		err = u.Scan(text)
		value = u.Bytes
	case keytemplate.TimestampTZ:
		value, err = time.Parse(time.RFC3339Nano, text)
	default:
		value, err = strconv.ParseInt(text, 10, 64)
	}
	must.Succeed(t, err)
	return value
}

func TestValuesThatMakeNoNameAreInvalidAndSayWhy(t *testing.T) {
	const number, text, at, two = "n:{x bigint}", "t:{x text}", "at:{x timestamptz}", "a:{x text}:{y integer}"
	set := querylock.NewSet([]string{number, text, at, two}, nil)
	if key := set.Key(two, "b:c", int32(-1)); key.Name() != "a:b%3Ac:-1" {
		t.Errorf("the name is %q", key.Name())
	}
	if key := set.Key(text, strings.Repeat("x", 1022)); len(key.Name()) != 1024 {
		t.Errorf("the longest name has %d bytes", len(key.Name()))
	}
	first := time.Date(-4713, 11, 24, 0, 0, 0, 0, time.UTC)
	if key := set.Key(at, first); key.Name() != "at:-210866803200000000" {
		t.Errorf("the first time is %q", key.Name())
	}
	for why, key := range map[string]pglock.Key{
		"1 values for 2 parameters":          set.Key(two, "x"),
		"2 values for 1 parameters":          set.Key(number, 1, true),
		"have no key other":                  set.Key("other"),
		"want an integer":                    set.Key(number, "1"),
		"beyond the bounds of":               set.Key(at, first.Add(-1)),
		"beyond the bounds of timestamptz":   set.Key(at, time.Date(300_000, 1, 1, 0, 0, 0, 0, time.UTC)),
		"lock t:{x}: {x}: it has a NUL":      set.Key(text, "a\x00"),
		"it is not UTF-8":                    set.Key(text, "a\xff"),
		"has 1025 bytes, and at most 1024":   set.Key(text, strings.Repeat("x", 1023)),
		"it is NULL":                         set.Key(text, nil),
		"the generated locks are broken: \"": querylock.NewSet([]string{"{"}, nil).Key("{", 1),
	} {
		if key.ID() != (pglock.KeyID{}) || key.Name() != "" || key.String() != "@invalid" {
			t.Errorf("%s: the key is %.30v", why, key)
		}
		for what, err := range map[string]error{"Check": key.Check(), "LockTx": pglock.LockTx(t.Context(), nil, key)} {
			if !errors.Is(err, pglock.ErrInvalidKey) || !strings.Contains(err.Error(), why) {
				t.Errorf("%s: got %v, want %s", what, err, why)
			}
		}
	}
}

func TestGeneratedCodeThatIsBrokenIsAnError(t *testing.T) {
	const text = "-- name: A :exec\nSELECT 1\n"
	for want, c := range map[string]struct {
		key   string
		locks []string
	}{
		"{x} has no type":                    {"a:{x}", nil},
		"lock b has no key":                  {"a", []string{"b"}},
		"{x} is not the number":              {"a:{x bigint}", []string{"a:{x}"}},
		"unknown option \"newer\"":           {"a", []string{"a newer"}},
		"query A: its locks have different ": {"a", []string{"a try", "a"}},
	} {
		set := querylock.NewSet([]string{c.key}, []querylock.Query{{Name: "A", Digest: querylock.Digest(text), Locks: c.locks}})
		wantBroken(t, want, set, text)
	}
	twice := querylock.Query{Name: "A", Digest: querylock.Digest(text)}
	wantBroken(t, "query A: there are two of this name", querylock.NewSet(nil, []querylock.Query{twice, twice}), text)
}

func wantBroken(t *testing.T, want string, set *querylock.Set, query string) {
	t.Helper()
	// No statement reaches the transaction, which has no connection.
	_, err := set.Tx(struct{ pgx.Tx }{}).Exec(context.Background(), query, 1)
	if err == nil || !strings.Contains(err.Error(), "the generated locks are broken: ") || !strings.Contains(err.Error(), want) {
		t.Errorf("the error is %v, want %s", err, want)
	}
}

// TestAPoolIsNoTransaction shows that locks.Tx(pool) does not compile.
func TestAPoolIsNoTransaction(t *testing.T) {
	tx := reflect.TypeFor[pgx.Tx]()
	for _, other := range []reflect.Type{reflect.TypeFor[*pgxpool.Pool](), reflect.TypeFor[*pgxpool.Conn](), reflect.TypeFor[*pgx.Conn]()} {
		if other.Implements(tx) {
			t.Errorf("%v is a pgx.Tx", other)
		}
	}
}
