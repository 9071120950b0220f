package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestManHasAPageOfEachCommandAndCompletions(t *testing.T) {
	dir := t.TempDir()
	if err := write(dir); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		"man/pglock.1":               "who holds which, who waits",
		"man/pglock-run.1":           ".SH NAME",
		"man/pglock-monitor.1":       "SEE ALSO",
		"man/pglock-migrate-print.1": "--down",
		"completions/pglock.bash":    "__start_pglock",
		"completions/pglock.zsh":     "#compdef pglock",
		"completions/pglock.fish":    "complete -c pglock",
		"completions/pglock.ps1":     "Register-ArgumentCompleter",
	} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %v, without %q", file, err, want)
		}
	}
}

func TestManPagesAreTheSameEachTime(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	for _, dir := range []string{first, second} {
		if err := write(dir); err != nil {
			t.Fatal(err)
		}
	}
	pages, err := filepath.Glob(filepath.Join(first, "man", "*"))
	if err != nil || len(pages) < 20 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	for _, page := range pages {
		one, oneErr := os.ReadFile(page)
		other, otherErr := os.ReadFile(filepath.Join(second, "man", filepath.Base(page)))
		if string(one) != string(other) || oneErr != nil || otherErr != nil {
			t.Errorf("%s differs: %v, %v", page, oneErr, otherErr)
		}
	}
}
