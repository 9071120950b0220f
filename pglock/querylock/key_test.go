package querylock_test

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/querylock"
)

func TestKeyOfValuesThatMakeNoNameIsTheZeroKey(t *testing.T) {
	if key := querylock.Key("a:{x}:{y}", querylock.Text("b:c"), querylock.Int(int32(-1))); key.Name() != "a:b%3Ac:-1" {
		t.Errorf("the name is %q", key.Name())
	}
	for name, key := range map[string]pglock.Key{
		"too few values":  querylock.Key("a:{x}:{y}", querylock.Int(int64(1))),
		"too many values": querylock.Key("a:{x}", querylock.Int(int64(1)), querylock.Bool(true)),
		"an open brace":   querylock.Key("a:{x", querylock.Int(int64(1))),
		"a late time":     querylock.Key("a:{x}", querylock.Time(time.Date(300_000, 1, 1, 0, 0, 0, 0, time.UTC))),
		"a NUL byte":      querylock.Key("a:{x}", querylock.Text("a\x00")),
		"no UTF-8":        querylock.Key("a:{x}", querylock.Text("a\xff")),
		"a long text":     querylock.Key("a:{x}", querylock.Text(strings.Repeat("x", 1023))),
	} {
		if key.ID() != (pglock.KeyID{}) {
			t.Errorf("%s: the key is %.30v", name, key)
		}
	}
}

func TestGeneratedCodeThatIsBrokenIsAnError(t *testing.T) {
	const text = "-- name: A :exec\nSELECT 1\n"
	for name, set := range map[string]*querylock.Set{
		"a template": querylock.NewSet([]string{"a{"}, []querylock.Query{{Name: "A", Digest: querylock.Digest(text)}}),
		"a lock": querylock.NewSet(nil, []querylock.Query{
			{Name: "A", Digest: querylock.Digest(text), Locks: []string{"a:{x=$1 bigint} maxwait=2s"}}}),
		"a number": querylock.NewSet(nil, []querylock.Query{
			{Name: "A", Digest: querylock.Digest(text), Locks: []string{"a:{x bigint}"}}}),
	} {
		// No statement reaches the transaction, which has no connection.
		_, err := set.Tx(struct{ pgx.Tx }{}).Exec(context.Background(), text, 1)
		if err == nil || !strings.Contains(err.Error(), "the generated locks are broken") {
			t.Errorf("%s: the error is %v", name, err)
		}
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
