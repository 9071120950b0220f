package suite

import (
	"context"
	"regexp"
	"testing"

	"github.com/pglock-toolkit/pglock/bench/internal/report"
)

type noLab struct{}

func (noLab) About() (string, map[string]string) { return "nothing", map[string]string{} }

func (noLab) Close() error { return nil }

func nothing(context.Context, noLab) ([]report.Line, error) { return nil, nil }

var some = Suite[noLab]{Name: "some", Rows: []Row[noLab]{
	{"keys-8", "", nothing}, {"keys-64", "", nothing}, {"keys-512", "", nothing}, {"handoff", "", nothing},
}}

func TestRowsAreSelectedByName(t *testing.T) {
	for expression, want := range map[string]int{"": len(some.Rows), "^keys-(64|512)$": 2, "nothing": 0} {
		if got := len(some.Select(regexp.MustCompile(expression))); got != want {
			t.Errorf("%q selects %d rows, want %d", expression, got, want)
		}
	}
}

func TestWrongFlagsAreErrors(t *testing.T) {
	for _, args := range [][]string{{"-rounds=0"}, {"-slice=0s"}, {"-only=("}, {"-timeout=-1s"}, {"extra"}} {
		if _, err := some.parse(args); err == nil {
			t.Errorf("%q is accepted", args)
		}
	}
}
