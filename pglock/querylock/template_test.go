package querylock_test

import (
	"context"
	"errors"
	"os/exec"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/keytemplate/keyvectors"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/querylock"
)

// TestNamesAreFrozen makes each name, and recognizes it.
func TestNamesAreFrozen(t *testing.T) {
	vectors, err := keyvectors.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range vectors {
		var values []any
		for i, p := range v.Template.Params() {
			value, err := keyvectors.Value(p.Type, v.Values[i])
			if err != nil {
				t.Fatal(err)
			}
			values = append(values, value)
		}
		template := keyvectors.Typed(v.Template)
		if key := template.Key(values...); key.Name() != v.Name || key.Int64() != v.Key {
			t.Errorf("%s of %q: got %q and %d, want %q and %d", template, v.Values, key.Name(), key.Int64(), v.Name, v.Key)
		}
		if label := querylock.NewSet([]querylock.Template{template}, nil).Label(v.Name); label != v.Template.String() {
			t.Errorf("the label of %q is %s, want %s", v.Name, label, v.Template)
		}
	}
}

func TestValuesThatMakeNoNameAreInvalidAndSayWhy(t *testing.T) {
	one := func(typ querylock.Type) querylock.Template {
		return querylock.Template{{Text: "a:", Param: "x", Type: typ}}
	}
	two := querylock.Template{{Text: "a:", Param: "x", Type: querylock.Text}, {Text: ":", Param: "y", Type: querylock.Int}}
	if key := two.Key("b:c", int32(-1)); key.Name() != "a:b%3Ac:-1" {
		t.Errorf("the name is %q", key.Name())
	}
	if key := one(querylock.Text).Key(strings.Repeat("x", 1022)); len(key.Name()) != 1024 {
		t.Errorf("the longest name has %d bytes", len(key.Name()))
	}
	for why, key := range map[string]pglock.Key{
		"1 values for 2 parameters":        two.Key("x"),
		"2 values for 1 parameters":        one(querylock.Int).Key(1, true),
		"want an integer":                  one(querylock.Int).Key("1"),
		"its type is unknown":              one(99).Key(1),
		"0 values for 0 parameters":        querylock.Template{}.Key(),
		"beyond the bounds of":             one(querylock.Time).Key(time.Date(300_000, 1, 1, 0, 0, 0, 0, time.UTC)),
		"lock a:{x}: {x}: it has a NUL":    one(querylock.Text).Key("a\x00"),
		"it is not UTF-8":                  one(querylock.Text).Key("a\xff"),
		"has 1025 bytes, and at most 1024": one(querylock.Text).Key(strings.Repeat("x", 1023)),
		"it is NULL":                       one(querylock.Text).Key(nil),
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
	key := querylock.Template{{Text: "a:", Param: "x", Type: querylock.Int}}
	lock := func(l querylock.Lock) querylock.Query { return querylock.Query{Locks: []querylock.Lock{l}} }
	good := querylock.Lock{Key: key, Args: []int{1}}
	for want, c := range map[string]struct {
		template querylock.Template
		query    querylock.Query
	}{
		"a template is empty":                                 {querylock.Template{}, lock(good)},
		"template {x}: part 2 has no text":                    {querylock.Template{{Type: querylock.Int, Param: "x"}, {}}, lock(good)},
		"template a{x}{y}: part 2 has no text":                {querylock.Template{{Text: "a", Param: "x", Type: querylock.Int}, {Param: "y", Type: querylock.Int}}, lock(good)},
		"template ab: part 1 has no parameter":                {querylock.Template{{Text: "a"}, {Text: "b"}}, lock(good)},
		"template a{x}: {x} has type 6, which this version":   {querylock.Template{{Text: "a", Param: "x", Type: querylock.Time + 1}}, lock(good)},
		"template a{x}: {x} has type 0, which this version":   {querylock.Template{{Text: "a", Param: "x"}}, lock(good)},
		"query A: a template is empty":                        {key, lock(querylock.Lock{})},
		"lock a:{x} has 0 arguments for 1 parameters":         {key, lock(querylock.Lock{Key: key})},
		"the arguments [0] are not all numbers from 1":        {key, lock(querylock.Lock{Key: key, Args: []int{0}})},
		"lock a:{x}: Each is 2 of 1 arguments":                {key, lock(querylock.Lock{Key: key, Args: []int{1}, Each: 2})},
		"query A: it has both Try and MaxWait":                {key, querylock.Query{Try: true, MaxWait: time.Second, Locks: []querylock.Lock{good}}},
		"query A: its MaxWait is -1s, and the least is 1ms":   {key, querylock.Query{MaxWait: -time.Second, Locks: []querylock.Lock{good}}},
		"query A: its MaxWait is 999µs, and the least is 1ms": {key, querylock.Query{MaxWait: 999 * time.Microsecond, Locks: []querylock.Lock{good}}},
	} {
		c.query.Name, c.query.Digest = "A", querylock.Digest(text)
		wantBroken(t, want, querylock.NewSet([]querylock.Template{c.template}, []querylock.Query{c.query}), text)
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

// TestProgramsReadNoComments shows that the parser of comments is not linked into programs.
func TestProgramsReadNoComments(t *testing.T) {
	packages, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil || !strings.Contains(string(packages), "/internal/keytext\n") || strings.Contains(string(packages), "keytemplate") {
		t.Errorf("the packages are %s: %v", packages, err)
	}
}
