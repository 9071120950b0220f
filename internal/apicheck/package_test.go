package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

const source = `package p

import "context"

const A, b = 1, 2

var C error

type S struct {
	Field, Other int
	hidden  string
	context.Context
}

func (s *S) Method(ctx context.Context) (n int, err error) { return 0, nil }
func (s S) hiddenMethod() {}

type I interface {
	Do(x int) error
	apply()
}

type T = S
type G[K comparable, V any] map[K]V

func F(a int,
	b ...string) error { return nil }

type private struct{ Shown int }

func (private) Shown2() {}
`

func TestAPIListsWhatIsExported(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "p.go"), []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := packageAPI("p", dir, []string{"p.go"})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"pkg p, const A",
		"pkg p, var C error",
		"pkg p, type S struct",
		"pkg p, type S struct, Field int",
		"pkg p, type S struct, Other int",
		"pkg p, type S struct, embedded context.Context",
		"pkg p, method (*S) Method(ctx context.Context) (n int, err error)",
		"pkg p, type I interface",
		"pkg p, type I interface, Do(x int) error",
		"pkg p, type I interface, unexported methods",
		"pkg p, type T = S",
		"pkg p, type G[K comparable, V any] map[K]V",
		"pkg p, func F(a int, b ...string) error",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
}

func TestAPIDifferenceShowsWhatCameAndWent(t *testing.T) {
	got := difference([]string{"a", "b"}, []string{"b", "c"})
	if want := "  - a\n  + c\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if same := difference([]string{"a"}, []string{"a"}); same != "" {
		t.Errorf("for equal lists it returns %q", same)
	}
}
