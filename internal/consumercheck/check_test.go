package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheDifferenceShowsWhatCameAndWent(t *testing.T) {
	for name, test := range map[string]struct {
		recorded, now []string
		want          string
	}{
		"equal":   {[]string{"a@1", "b@1"}, []string{"a@1", "b@1"}, ""},
		"added":   {[]string{"a@1"}, []string{"a@1", "b@1"}, "  + b@1\n"},
		"removed": {[]string{"a@1", "b@1"}, []string{"b@1"}, "  - a@1\n"},
		"changed": {[]string{"a@1", "b@1"}, []string{"a@1", "b@2"}, "  - b@1\n  + b@2\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := diff(test.recorded, test.now); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestRecordedListsCompareEqualUntilSomethingChanges(t *testing.T) {
	directory := t.TempDir()
	lists := []list{newList("graph.txt", "modules", []string{"b@1", "a@1", "a@1"})}
	if err := compareLists(directory, lists); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a record the error is %v", err)
	}
	if err := recordLists(directory, lists); err != nil {
		t.Fatal(err)
	}
	if err := compareLists(directory, lists); err != nil {
		t.Error(err)
	}
	lists[0].lines[0] = "a@2"
	err := compareLists(directory, lists)
	if err == nil || !strings.Contains(err.Error(), "  - a@1\n  + a@2\n") {
		t.Errorf("after a change the error is %v", err)
	}
	if content, err := os.ReadFile(filepath.Join(directory, "graph.txt")); string(content) != "a@1\nb@1\n" {
		t.Errorf("the record is %q, %v", content, err)
	}
}

func TestAHeavyImportIsRefused(t *testing.T) {
	lib := library{path: "example.com/lib"}
	allowed := []string{"context", pgx}
	migrate, redis := "github.com/golang-migrate/migrate/v4", "github.com/redis/go-redis/v9"
	for name, test := range map[string]struct {
		packages []ourPackage
		want     string
	}{
		"what is allowed": {[]ourPackage{
			{path: "pglock/leader", deps: []string{"context", pgx, "example.com/lib/pglock"}},
			{path: "migrations", imports: []string{migrate}},
			{path: "cmd/pglock", imports: []string{migrate}, deps: []string{migrate, redis}},
			{path: "redisfallback", imports: []string{redis}, deps: []string{redis}},
		}, ""},
		"a heavy dependency behind our own package": {
			[]ourPackage{{path: "monitor", deps: []string{"example.com/lib/migrations", migrate}}}, "monitor",
		},
		"a gate passed by another package": {
			[]ourPackage{{path: "redisfallbacks", imports: []string{redis}}}, "redisfallbacks",
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := checkLight(lib, test.packages, allowed)
			if err == nil {
				err = checkGates(test.packages)
			}
			switch refused := test.want != ""; {
			case !refused && err != nil:
				t.Error(err)
			case refused && (err == nil || !strings.Contains(err.Error(), "package "+test.want+" ")):
				t.Errorf("the error is %v, want one about %s", err, test.want)
			}
		})
	}
}
