package cli_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

var update = flag.Bool("update", false, "write the golden files anew")

// Text that differs in every run is replaced before a screen is compared: process IDs by the session's name, ages by
// AGE, and so on. Columns keep their positions: a shorter text is padded, and a longer one uses the space beside it.
var (
	titlePattern    = regexp.MustCompile(`^ \S+@.*?( +every )`)
	clockPattern    = regexp.MustCompile(`\d\d:\d\d:\d\d`)
	upTo            = regexp.MustCompile(`≤(\d)`) // PostgreSQL 13 does not say how long a session has waited
	usePattern      = regexp.MustCompile(`≥[\d.]+%`)
	sentencePattern = regexp.MustCompile(`(longest wait|DEADLOCK for) \d[^\s:;]*`)
	cutPattern      = regexp.MustCompile(`(blocked by \d+)[^…]{0,14}…`)
	agePattern      = regexp.MustCompile(`\b(\d+ms|\d+\.\ds|\d+s|\d+m\d\ds)(\s|$)`)
)

// headlinePattern matches the headline, whose lines end where the process ID and the ages leave room.
var headlinePattern = regexp.MustCompile(`\A(.*\n) [^▁▂▃▄▅▆▇█─]*?\n( \d+ waiters?\b|── )`)

// headline returns the lines between the title and the counts as one, without what is different in every run.
func headline(screen string, names map[int32]string) string {
	_, lines, _ := strings.Cut(screen, "\n")
	if counts := regexp.MustCompile(`(?m)^ \d+ waiters?\b`).FindStringIndex(lines); counts != nil {
		lines = lines[:counts[0]]
	}
	text := strings.Join(strings.Fields(lines), " ")
	for pid, name := range names {
		text = regexp.MustCompile(fmt.Sprintf(`\b%d\b`, pid)).ReplaceAllString(text, name)
	}
	return regexp.MustCompile(`\b\d+(ms|\.\ds|s|m\d\ds)`).ReplaceAllString(text, "AGE")
}

// normal replaces what is different in every run. names are by process ID.
func normal(screen string, names map[int32]string) string {
	if found := headlinePattern.FindStringSubmatch(screen); found != nil {
		screen = found[1] + " HEADLINE\n" + found[2] + strings.TrimPrefix(screen, found[0])
	}
	var lines []string
	for line := range strings.Lines(screen) {
		line = clockPattern.ReplaceAllString(strings.TrimRight(line, "\n"), "hh:mm:ss")
		if title := titlePattern.FindStringSubmatchIndex(line); title != nil {
			lines = append(lines, "SERVER"+strings.Repeat(" ", utf8.RuneCountInString(line[:title[2]])-6)+line[title[2]:])
			continue
		}
		line = upTo.ReplaceAllString(line, " $1")
		line = usePattern.ReplaceAllString(line, "≥N%")
		line = sentencePattern.ReplaceAllString(line, "$1 AGE")
		line = cutPattern.ReplaceAllStringFunc(line, func(cut string) string { // a longer process ID leaves less room for the name
			short := cutPattern.FindStringSubmatch(cut)[1] + "…"
			return short + strings.Repeat(" ", utf8.RuneCountInString(cut)-utf8.RuneCountInString(short))
		})
		for pid, name := range names {
			line = replace(line, regexp.MustCompile(fmt.Sprintf(`\b(%d)(\D|$)`, pid)), name, isColumnOfPIDs)
		}
		line = replace(line, agePattern, "AGE", isColumnOfAges)
		lines = append(lines, strings.TrimRight(line, " "))
	}
	return strings.Join(lines, "\n") + "\n"
}

// Columns that are flush right are recognized by the text before them: a process ID that does not begin at the
// marker, an age with space before it.
func isColumnOfPIDs(before string) bool { return len(before) > 2 && strings.Trim(before, " >!") == "" }
func isColumnOfAges(before string) bool { return strings.HasSuffix(before, "  ") }

// replace replaces the first group of pattern by name, and keeps the text after it in its column.
func replace(line string, pattern *regexp.Regexp, name string, flushRight func(before string) bool) string {
	for from := 0; ; {
		found := pattern.FindStringSubmatchIndex(line[from:])
		if found == nil {
			return line
		}
		start, end := from+found[2], from+found[3]
		before, after := line[:start], line[end:]
		more := utf8.RuneCountInString(line[start:end]) - len(name)
		if flushRight(before) {
			before = stretch(before, len(before), more)
		} else if gap := strings.Index(after, "  "); gap >= 0 {
			column := len(after) - len(strings.TrimLeft(after[gap:], " "))
			after = stretch(after, column, more)
		}
		line = before + name + after
		from = len(before) + len(name)
	}
}

// stretch adds or removes spaces before position at.
func stretch(text string, at, by int) string {
	if by >= 0 {
		return text[:at] + strings.Repeat(" ", by) + text[at:]
	}
	return strings.TrimSuffix(text[:at], strings.Repeat(" ", -by)) + text[at:]
}

// golden waits until the screen shows settled, and then until it equals the file.
func (m *terminal) golden(name, settled string, names map[int32]string) {
	m.t.Helper()
	m.shows(settled)
	path := filepath.Join("testdata", name+".golden")
	if *update {
		must.Succeed(m.t, os.WriteFile(path, []byte(normal(m.screen(), names)), 0o644))
		return
	}
	want, err := os.ReadFile(path)
	must.Succeed(m.t, err)
	var got string
	m.t.Cleanup(func() {
		if m.t.Failed() {
			m.t.Logf("the last screen that was compared with %s, of %v:\n%s", path, slices.Collect(maps.Values(names)), got)
		}
	})
	testenv.WaitUntil(m.t, "the screen is the one of "+path+" (go test -update writes it)", func() bool {
		got = normal(m.screen(), names)
		return got == string(want)
	})
}

func TestViewScreensAreComparedInColumns(t *testing.T) {
	names := map[int32]string{123: "P-ONE", 1234567: "P-TWO"}
	for line, want := range map[string]string{
		"> 123 app      12.3s  x":               "> P-ONE app      AGE  x",
		"  1234567 app   1.2s  x":               "  P-TWO app      AGE  x",
		">     123 app  5ms":                    ">   P-ONE app  AGE",
		"  1234567 app  idle 1m02s  y":          "  P-TWO app    idle AGE    y",
		"> k  123 app    1":                     "> k  P-ONE app  1",
		"  x  blocked by 123 paym…    1":        "  x  blocked by P-ONE…       1",
		"  x  blocked by 1234567 …    1":        "  x  blocked by P-TWO…       1",
		" 3 keys  longest wait 1ms  ≥0.1%":      " 3 keys  longest wait AGE  ≥N%",
		" u@db:1/x  PG 15   every 1s  11:22:33": "SERVER             every 1s  hh:mm:ss",
	} {
		if got := normal(line, names); got != want+"\n" {
			t.Errorf("%q becomes\n%q, want\n%q", line, got, want)
		}
	}
}
