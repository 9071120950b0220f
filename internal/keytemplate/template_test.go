package keytemplate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/internal/keytemplate"
	"github.com/pglock-toolkit/pglock/internal/keytemplate/keyvectors"
	"github.com/pglock-toolkit/pglock/pglock"
)

func parse(t testing.TB, text string) keytemplate.Template {
	t.Helper()
	template, err := keytemplate.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return template
}

func encode(value any) (string, error) {
	switch v := value.(type) {
	case string:
		return keytemplate.EncodeText(v)
	case bool:
		return keytemplate.EncodeBool(v), nil
	case [16]byte:
		return keytemplate.EncodeUUID(v), nil
	case time.Time:
		return keytemplate.EncodeTime(v)
	}
	return keytemplate.EncodeInt(value.(int64)), nil
}

func TestNamesAreFrozen(t *testing.T) {
	vectors, err := keyvectors.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range vectors {
		var values []string
		for i, p := range v.Template.Params() {
			value, err := keyvectors.Value(p.Type, v.Values[i])
			if err != nil {
				t.Fatal(err)
			}
			text, err := encode(value)
			if err != nil {
				t.Fatal(err)
			}
			values = append(values, text)
		}
		name, err := v.Template.Name(values)
		if err != nil || name != v.Name || pglock.NewKey(name).Int64() != v.Key {
			t.Errorf("%s of %q: got %q, %d and %v, want %q and %d",
				v.Template, v.Values, name, pglock.NewKey(name).Int64(), err, v.Name, v.Key)
		}
		if _, ok := v.Template.Values(name); !ok {
			t.Errorf("%s does not recognize %q", v.Template, name)
		}
	}
}

// FuzzNamesAreInjective reads back from each name the values it was made of.
func FuzzNamesAreInjective(f *testing.F) {
	f.Add("", "a:b", int64(0), true, int64(-1), []byte("0123456789abcdef"))
	f.Add("%", "%25%", int64(-1<<63), false, int64(1<<53), []byte{})
	f.Add("{x}@", "\x00\xff\n", int64(1<<63-1), true, int64(-999_999), []byte{})
	template := parse(f, "a:{s text}@{r text}:{n bigint}-{literal boolean}-{at timestamptz}/{u uuid}")
	f.Fuzz(func(t *testing.T, s, r string, n int64, b bool, micros int64, u []byte) {
		var id [16]byte
		copy(id[:], u)
		at := time.UnixMicro(micros)
		var values []string
		for _, value := range []any{s, r, n, b, at, id} {
			text, err := encode(value)
			if err != nil {
				t.Skip(err)
			}
			values = append(values, text)
		}
		name, err := template.Name(values)
		if err != nil {
			if len(s)+len(r) < 200 {
				t.Fatal(err)
			}
			return
		}
		got, ok := template.Values(name)
		if !ok || strings.Join(got, "|") != strings.Join(values, "|") {
			t.Fatalf("%q was made of %q, and read as %q", name, values, got)
		}
		if back := unescape(got[0]); back != s {
			t.Fatalf("%q was escaped as %q, which reads as %q", s, got[0], back)
		}
		if got[2] != fmt.Sprint(n) || got[4] != fmt.Sprint(micros) {
			t.Fatalf("%d and %d are %s and %s", n, micros, got[2], got[4])
		}
	})
}

func unescape(text string) string {
	return strings.NewReplacer("%25", "%", "%3A", ":", "%40", "@", "%7B", "{", "%7D", "}").Replace(text)
}

func TestTextsThatPostgreSQLCannotHaveAreErrors(t *testing.T) {
	for text, want := range map[string]string{"a\x00b": "NUL", "\x00": "NUL", "a\xff": "UTF-8", "\xc3": "UTF-8", "\xed\xa0\x80": "UTF-8"} {
		if got, err := keytemplate.EncodeText(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %q and %v, want %s", text, got, err, want)
		}
	}
}

func TestTimesBeyondTimestamptzAreErrors(t *testing.T) {
	first := time.Date(-4713, 11, 24, 0, 0, 0, 0, time.UTC)
	last := time.Date(294276, 12, 31, 23, 59, 59, 999_999_999, time.UTC)
	for at, want := range map[time.Time]string{
		first: "-210866803200000000", last: "9224318015999999999",
		first.Add(-1): "", last.Add(1): "",
	} {
		got, err := keytemplate.EncodeTime(at)
		if (err == nil) != (want != "") || (err == nil && got != want) {
			t.Errorf("%v: got %q and %v, want %q", at, got, err, want)
		}
	}
}

func TestNamesHaveABound(t *testing.T) {
	template := parse(t, "a:{s text}")
	if _, err := template.Name([]string{strings.Repeat("x", keytemplate.MaxName-2)}); err != nil {
		t.Error(err)
	}
	if _, err := template.Name([]string{strings.Repeat("x", keytemplate.MaxName-1)}); err == nil {
		t.Error("a name beyond the bound is no error")
	}
}

func TestTemplatesThatAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                           "is empty",
		"a{":                         "has no }",
		"a}b":                        "has no {",
		"a{}":                        "want {name}",
		"a{1x}":                      "want {name}",
		"a{id money}":                `type "money" cannot be part of a key`,
		"a{id numeric(3,1)}":         "cannot be part of a key",
		"a{id date}":                 "DateStyle",
		"a{id timestamp}":            "use timestamptz",
		"a{x=$0}":                    "neither the name",
		"a{x text}{y text}":          "touch",
		"a{x text}b":                 "can itself contain",
		"a{x text}%":                 "can itself contain",
		"a{x bigint}1":               "can itself contain",
		"a:{x bigint}:{x bigint}":    "appears twice",
		"a:{x text[]}:{y bigint[]}":  "only one parameter can be an array",
		"a\u200b":                    "invisible characters",
		strings.Repeat("long", 1000): "fit in a name",
	} {
		if _, err := keytemplate.Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.30q: the error is %v, want %q", text, err, want)
		}
	}
}

func TestConflictsAreFound(t *testing.T) {
	for _, c := range []struct{ a, b, name string }{
		{"invoice:{id bigint}", "invoice:{nr bigint}", "invoice:0"},
		{"invoice:{id bigint}", "invoice:{name text}", "invoice:0"},
		{"invoice:{id bigint}", "invoice:42", "invoice:42"},
		{"invoice:{id bigint}", "invoice:042", ""},
		{"invoice:{id bigint}", "invoice:-0", ""},
		{"invoice:{id bigint}", "invoices:{id bigint}", ""},
		{"invoice:{id bigint}", "invoice:{id bigint}:lines", ""},
		{"a:{x text}", "a:{x text}:{y text}", ""},
		{"a:{x text}", "a:true", "a:true"},
		{"a:{x text}:b", "a:{x text}:{y text}", "a::b"},
		{"a:{x boolean}", "a:{y bigint}", ""},
		{"a:{x uuid}", "a:{y text}", "a:00000000-0000-0000-0000-000000000000"},
		{"a:{x uuid}", "a:{y bigint}", ""},
		{"{x text}:b", "a:{y text}", "a:b"},
		{"a:%3A", "a:{x text}", "a:%3A"},
		{"a:%3B", "a:{x text}", ""},
	} {
		for _, pair := range [][2]string{{c.a, c.b}, {c.b, c.a}} {
			name, ok := keytemplate.Conflict(parse(t, pair[0]), parse(t, pair[1]))
			if name != c.name || ok != (c.name != "") {
				t.Errorf("%s and %s: got %q, want %q", pair[0], pair[1], name, c.name)
			}
		}
	}
}

func TestOptionsOfLocks(t *testing.T) {
	lock, err := keytemplate.ParseLock("a:{id = $3  bigint} max_wait=1500ms savepoint shared")
	if err != nil || lock.Options() != " shared savepoint max_wait=1.5s" || lock.Template.String() != "a:{id}" {
		t.Errorf("got %s%s and %v", lock, lock.Options(), err)
	}
	for text, want := range map[string]string{
		"a maxwait=2s":              `unknown option "maxwait=2s"`,
		"a shared shared":           "twice",
		"a max_wait=1s max_wait=1s": "twice",
		"a max_wait=2":              "want a duration",
		"a max_wait=0s":             "least wait",
		"a try max_wait=2s":         "contradicts",
		"a try=1":                   "unknown option",
	} {
		if _, err := keytemplate.ParseLock(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: the error is %v, want %q", text, err, want)
		}
	}
}
