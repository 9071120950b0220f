package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

func TestAPageKeepsTheRowsOfOtherSystems(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	must.Succeed(t, os.WriteFile(page, []byte("before\n"+begins+"| "+systems[1].name+" | old |\n| gone |\n"+ends+"after\n"), 0o600))
	when := time.Date(2026, 11, 25, 0, 0, 0, 0, time.UTC)
	must.Succeed(t, write(page, []result{
		{system: systems[2], version: "17.1", suite: "locks", passed: 2, when: when},
		{system: systems[2], version: "17.1", suite: "rows", err: errors.New("exit status 1"), when: when},
	}))
	must.Succeed(t, write(page, []result{{system: systems[0], err: errors.New("no such package"), when: when}}))
	text, err := os.ReadFile(page)
	must.Succeed(t, err)
	want := "before\n" + begins + "| server | version, release of Debian | what was run | when |\n|---|---|---|---|\n" +
		"| " + systems[0].name + " | " + systems[0].release + " | not available | 25 November 2026 |\n" +
		"| " + systems[1].name + " | old |\n" +
		"| " + systems[2].name + " | 17.1, " + systems[2].release + " | locks passed (2 tests); rows failed | 25 November 2026 |\n" +
		ends + "after\n"
	if string(text) != want {
		t.Errorf("the page is\n%s\nwant\n%s", text, want)
	}
}

func TestEverySystemHasANameOfItsOwn(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range systems {
		if seen[s.name] || len(s.suites) == 0 || len(s.packages) == 0 || strings.Contains(s.name, "|") {
			t.Errorf("the system %q is there twice, or lacks something", s.name)
		}
		seen[s.name] = true
	}
}
