package view

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/pglock-toolkit/pglock/monitor"
)

// hostile contains control sequences of terminals. CSV and JSON must preserve it.
const hostile = "a\x1b[2J\x07\r\nb\t\u009b2J\u202e\u2028\U000e0001\x7f\",|'é日本"

func hostileSnapshot() *monitor.Snapshot {
	s := snapshot()
	s.Database = hostile
	lock := &s.Locks[2]
	lock.Key, lock.Names, lock.Database = hostile, []string{hostile}, hostile
	lock.Holders[0].Query, lock.Holders[0].Application = hostile, hostile
	lock.Waiters[0].User = hostile
	s.Locks[1].Holders[0].GID = hostile
	s.Locks[0].Guesses = []monitor.Guess{{Tool: "x", Text: hostile, Confidence: monitor.ConfidenceProbable}}
	s.Cycles = []monitor.Cycle{{Certain: true, Steps: []monitor.Step{{PID: 1, Key: hostile, BlockedBy: 2}}}}
	return s
}

func TestJSONIsHarmlessAndMeansTheSame(t *testing.T) {
	s := hostileSnapshot()
	for name, write := range map[string]func(*bytes.Buffer) error{
		"json":   func(b *bytes.Buffer) error { return JSON(b, s) },
		"ndjson": func(b *bytes.Buffer) error { return NDJSON(b, s) },
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		requireHarmless(t, name, b.String())
		if lines := strings.Count(b.String(), "\n"); (lines == 1) != (name == "ndjson") {
			t.Errorf("%s has %d lines", name, lines)
		}
		var read monitor.Snapshot
		if err := json.Unmarshal(b.Bytes(), &read); err != nil {
			t.Fatal(err)
		}
		want := hostileSnapshot()
		for i := range want.Locks[2].Waiters {
			w := &want.Locks[2].Waiters[i]
			w.BlockedBy = w.BlockedBy[:1] // those ahead in the queue are only counted
		}
		if !reflect.DeepEqual(&read, want) {
			t.Errorf("%s reads back as %+v", name, read)
		}
	}
}

// Locks are written one by one, and the text is that of the whole.
func TestJSONOfLocksIsThatOfTheSnapshot(t *testing.T) {
	none, null := snapshot(), snapshot()
	none.Locks, null.Locks = []monitor.Lock{}, nil
	for _, s := range []*monitor.Snapshot{snapshot(), none, null} {
		for _, indent := range []string{"", "  "} {
			var got, want bytes.Buffer
			if err := errors.Join(writeJSON(&got, s, indent), encodeJSON(&want, s, "", indent)); err != nil {
				t.Fatal(err)
			}
			if got.String() != want.String() {
				t.Errorf("got\n%s\nwant\n%s", got.String(), want.String())
			}
		}
	}
}

func requireHarmless(t *testing.T, what, text string) {
	t.Helper()
	for _, r := range text {
		if r != '\n' && !unicode.IsPrint(r) {
			t.Errorf("%s has %U in it", what, r)
		}
	}
}

func TestCSVKeepsEveryFieldAsItIs(t *testing.T) {
	s := hostileSnapshot()
	var b bytes.Buffer
	if err := (CSV{}).Header(&b); err != nil {
		t.Fatal(err)
	}
	if err := (CSV{}).Snapshot(&b, s); err != nil {
		t.Fatal(err)
	}
	if rest := strings.ReplaceAll(b.String(), "\r\n", ""); strings.Contains(rest, "\n") {
		t.Error("a line does not end as RFC 4180 has it")
	}
	records, err := csv.NewReader(&b).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, record := range records {
		if len(record) != len(header) {
			t.Errorf("a record has %d fields, want %d: %q", len(record), len(header), record)
		}
		for _, field := range record {
			if field == strings.ReplaceAll(hostile, "\r\n", "\n") { // Go's reader changes line ends; the writer does not
				found++
			}
		}
	}
	if found < 8 {
		t.Errorf("%d fields read as they were, want more: %q", found, records)
	}
}

func TestCSVIsNoFormulaAndUTF8(t *testing.T) {
	for text, want := range map[string]string{
		"":                   "",
		"invoice:42":         "invoice:42",
		"@42":                "@42",
		"@-42":               "@-42",
		"@-7/-42":            "@-7/-42",
		"@-7/-42#3":          "@-7/-42#3",
		"@7/-42/cmd":         "'@7/-42/cmd",
		"@7/-42":             "@7/-42",
		"-42":                "-42",
		"=1+1":               "'=1+1",
		"+cmd|' /C calc'!A0": "'+cmd|' /C calc'!A0",
		"-1+cmd|x!A0":        "'-1+cmd|x!A0",
		"-- name: Get":       "'-- name: Get",
		"@SUM(A1)":           "'@SUM(A1)",
		"\t=1":               "'\t=1",
		"\r=1":               "'\r=1",
		"\n=1":               "'\n=1",
		"＝1":                 "'＝1",
		"'=1":                "''=1",
		"'gid'":              "'gid'",
		"k\xffé\xe2\x82":     "k\ufffdé\ufffd",
		"\xff=1":             "\ufffd=1",
	} {
		if got := Cell(text); got != want {
			t.Errorf("%q is written %q, want %q", text, got, want)
		}
	}
	s := snapshot()
	lock := &s.Locks[2]
	lock.Key, lock.Names, lock.Database = "=a\xff", []string{"=a\xff"}, "=d\xff"
	lock.Holders[0].User, lock.Holders[0].Application, lock.Holders[0].Query = "=u\xff", "=p\xff", "=q\xff"
	for _, c := range []CSV{{}, {Printable: true}} {
		var b bytes.Buffer
		if err := c.Snapshot(&b, s); err != nil {
			t.Fatal(err)
		}
		if !utf8.Valid(b.Bytes()) || strings.Contains(","+strings.ReplaceAll(b.String(), "\r\n", ","), ",=") {
			t.Errorf("the CSV is %q", b.String())
		}
		for _, want := range []string{"'=a", "'=d", "'=u", "'=p", "'=q"} {
			if !strings.Contains(b.String(), ","+want) {
				t.Errorf("the CSV has no %q: %q", want, b.String())
			}
		}
	}
}

func TestCSVForPeopleIsHarmless(t *testing.T) {
	var b bytes.Buffer
	if err := (CSV{Printable: true}).Snapshot(&b, hostileSnapshot()); err != nil {
		t.Fatal(err)
	}
	requireHarmless(t, "CSV", strings.ReplaceAll(b.String(), "\r\n", "\n"))
}

func TestTheTableOfHostileTextIsHarmless(t *testing.T) {
	s := hostileSnapshot()
	for width := 20; width < 300; width += 7 {
		for _, line := range Table(s, Filter{}, Server{Target: "x"}, width) {
			requireHarmless(t, "the table", line)
			if Columns(line) > width {
				t.Fatalf("%d columns instead of %d: %s", Columns(line), width, line)
			}
		}
	}
}
