package main

import (
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"
)

func (r result) outcome() string {
	switch {
	case r.suite == "":
		return "not available: " + strings.ReplaceAll(r.err.Error(), "\n", " ")
	case r.err != nil:
		return "failed"
	}
	return fmt.Sprintf("passed (%d tests)", r.passed)
}

// table is a row for each suite.
func table(results []result) string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 1, ' ', 0)
	_, _ = fmt.Fprintln(w, "| server\t| version\t| suite\t| result\t| took\t|")
	_, _ = fmt.Fprintln(w, "| ---\t| ---\t| ---\t| ---\t| --:\t|")
	for _, r := range results {
		_, _ = fmt.Fprintf(w, "| %s\t| %s\t| %s\t| %s\t| %v\t|\n", r.system.name, r.version, r.suite, r.outcome(), r.took.Round(time.Second))
	}
	_ = w.Flush() // a Builder does not fail
	return text.String()
}

const (
	begins = "<!-- make test-matrix writes from here -->\n"
	ends   = "<!-- to here -->\n"
)

// write replaces the row of a system in the table of a page.
func write(page string, results []result) error {
	old, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, found := strings.Cut(string(old), begins)
	rows, after, alsoFound := strings.Cut(rest, ends)
	if !found || !alsoFound {
		return fmt.Errorf("%s has no place for the table: %q and %q", page, begins, ends)
	}
	var text strings.Builder
	text.WriteString(before + begins + "| server | version, release of Debian | what was run | when |\n|---|---|---|---|\n")
	for _, s := range systems {
		if s.name == results[0].system.name {
			text.WriteString(row(results))
			continue
		}
		for line := range strings.Lines(rows) {
			if strings.HasPrefix(line, "| "+s.name+" |") {
				text.WriteString(line)
			}
		}
	}
	text.WriteString(ends + after)
	return os.WriteFile(page, []byte(text.String()), 0o644) //nolint:gosec // a page
}

// row is what is known of a system, in one row.
func row(results []result) string {
	var outcomes []string
	for _, r := range results {
		if r.suite == "" {
			outcomes = append(outcomes, "not available")
		} else {
			outcomes = append(outcomes, r.suite+" "+r.outcome())
		}
	}
	first := results[0]
	return fmt.Sprintf("| %s | %s | %s | %s |\n", first.system.name, strings.TrimPrefix(first.version+", "+first.system.release, ", "),
		strings.Join(outcomes, "; "), first.when.UTC().Format("2 January 2006"))
}
