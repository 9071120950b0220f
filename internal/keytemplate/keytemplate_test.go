package keytemplate_test

import (
	"strings"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/keytemplate"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

func parse(t testing.TB, text string) keytemplate.Template {
	t.Helper()
	template, err := keytemplate.Parse(text)
	must.Succeed(t, err)
	return template
}

func TestTemplatesThatAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                           "is empty",
		"a{":                         "has no }",
		"a}b":                        "has no {",
		"a{}":                        "want {name type}",
		"a{1x}":                      "want {name type}",
		"a:{id}":                     "{id} has no type: write {id bigint}",
		"a:{id=x}":                   "a key declares its own parameters",
		"a{id money}":                `type "money" cannot be part of a key`,
		"a{id numeric(3,1)}":         "cannot be part of a key",
		"a{id date}":                 "DateStyle",
		"a{id timestamp}":            "use timestamptz",
		"a{x text}{y text}":          "touch",
		"a{x text}b":                 "can itself contain",
		"a{x text}%":                 "can itself contain",
		"a{x bigint}1":               "can itself contain",
		"a:{x bigint}:{x bigint}":    "appears twice",
		"a\u200b":                    "invisible characters",
		strings.Repeat("long", 1000): "fit in a name",
	} {
		if _, err := keytemplate.Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: the error is %v, want %q", text, err, want)
		}
	}
}

func TestConflictsAreFound(t *testing.T) {
	for _, c := range []struct {
		a, b     string
		conflict bool
	}{
		{"invoice:{id bigint}", "invoice:{nr bigint}", true},
		{"invoice:{id bigint}", "invoice:{name text}", true},
		{"invoice:{id bigint}", "invoice:42", true},
		{"invoice:{id bigint}", "invoice:", false},
		{"invoice:{id bigint}", "invoices:{id bigint}", false},
		{"invoice:{id bigint}", "invoice:{id bigint}:lines", false},
		{"invoice:{id bigint}", "invoice:total", false},
		{"a:{x text}", "a:", true},
		{"a:{x text}", "a:{x text}:{y text}", false},
		{"a:{x text}", "a:true", true},
		{"a:{x text}:b", "a:{x text}:{y text}", true},
		{"a:{x boolean}", "a:{y bigint}", false},
		{"a:{x uuid}", "a:{y text}", true},
		{"{x text}:b", "a:{y text}", true},
		{"a:%3A", "a:{x text}", true},
	} {
		for _, pair := range [][2]string{{c.a, c.b}, {c.b, c.a}} {
			if keytemplate.Conflict(parse(t, pair[0]), parse(t, pair[1])) != c.conflict {
				t.Errorf("%s and %s: want %v", pair[0], pair[1], c.conflict)
			}
		}
	}
}

func TestLocksAreReadAndWritten(t *testing.T) {
	for text, want := range map[string]string{
		"a:{id = $3[]} max_wait=1500ms shared": "a:{id=$3[]} shared max_wait=1.5s",
		"a:{id}:{nr=other}\ttry":               "a:{id}:{nr=other} try",
	} {
		lock, err := keytemplate.ParseLock(text)
		if err != nil || lock.String() != want {
			t.Errorf("%s: got %s and %v, want %s", text, lock, err, want)
		}
	}
	for text, want := range map[string]string{
		"a maxwait=2s":              `unknown option "maxwait=2s"`,
		"a shared shared":           "twice",
		"a max_wait=1s max_wait=2s": "twice",
		"a max_wait=2":              "want a duration",
		"a max_wait=0s":             "least wait",
		"a try max_wait=2s":         "contradicts",
		"a try=1":                   "unknown option",
		"a:{x=$0}":                  "want {name type}",
		"a:{x bigint}":              "the type of {x} is the key's",
		"a:{x=$1[]}:{y=$2[]}":       "only one parameter can be an array",
	} {
		if _, err := keytemplate.ParseLock(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: the error is %v, want %q", text, err, want)
		}
	}
}

// FuzzParseLock: what can be read is written as something that reads the same.
func FuzzParseLock(f *testing.F) {
	for _, text := range []string{
		"invoice:{id} shared max_wait=2s", "a:{b=c[]}{d} try", "{x}", "a{", "{{}}", "k max_wait=1h2m3.004s shared", "{a bigint}",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		lock, err := keytemplate.ParseLock(text)
		if err != nil {
			return
		}
		if again, err := keytemplate.ParseLock(lock.String()); err != nil || again.String() != lock.String() {
			t.Errorf("%q is written %q, which reads as %q, %v", text, lock, again, err)
		}
	})
}
