package keytemplate_test

import (
	"strings"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/keytemplate"
)

func parse(t testing.TB, text string) keytemplate.Template {
	t.Helper()
	template, err := keytemplate.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return template
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
