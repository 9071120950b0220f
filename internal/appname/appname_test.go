package appname_test

import (
	"strings"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/appname"
)

func TestANameHasTheMarkAndIsKeptWhole(t *testing.T) {
	const kept = 63 // NAMEDATALEN - 1
	for chosen, want := range map[string]string{
		"billing":               "billing",
		"":                      "own",
		"a (pglock 00000000)":   "a (pglock 00000000)",
		"büro\n":                "b?ro?",
		strings.Repeat("x", 99): strings.Repeat("x", kept-len(" (pglock 00000000)")),
	} {
		name := appname.Of(chosen, "own")
		application, process := appname.Split(name)
		if application != want || len(name) > kept || len(process) != 8 || !appname.OfThisProcess(name) {
			t.Errorf("%q becomes %q, want %q with a mark", chosen, name, want)
		}
	}
}

func TestANameWithoutAMarkIsLeftAsItIs(t *testing.T) {
	for _, name := range []string{"", "psql", "x (pglock 123)", "(pglock 0123456g)", "(pglock 01234567) x"} {
		if application, process := appname.Split(name); application != name || process != "" {
			t.Errorf("Split(%q) = %q, %q", name, application, process)
		}
	}
}
