package appname_test

import (
	"strings"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/appname"
)

func TestANameHasTheMarkAndIsKeptWhole(t *testing.T) {
	const kept = 63 // NAMEDATALEN - 1
	for _, chosen := range []string{"billing", "", "a (pglock 00000000)", strings.Repeat("x", 100)} {
		name := appname.Of(chosen, "own")
		application, process := appname.Split(name)
		if len(name) > kept || len(process) != 8 || !appname.OfThisProcess(name) {
			t.Errorf("%q becomes %q", chosen, name)
		}
		if want := chosen; want != "" && !strings.HasPrefix(want, application) {
			t.Errorf("%q becomes %q, of which %q is left", chosen, name, application)
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
