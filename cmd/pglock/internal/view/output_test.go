package view

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"unicode"

	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/monitor"
)

// hostile contains control sequences of terminals. JSON must preserve it.
const hostile = "a\x1b[2J\x07\r\nb\t\u009b2J\u202e\u2028\U000e0001\x7f\",|'é日本"

func hostileSnapshot() *monitor.Snapshot {
	s := snapshot()
	s.Database = hostile
	lock := &s.Locks[2]
	lock.Key, lock.Names, lock.Database = hostile, []string{hostile}, hostile
	lock.Holders[0].Query, lock.Holders[0].Application = hostile, hostile
	lock.Waiters[0].User = hostile
	s.Locks[1].Holders[0].GID = hostile
	s.Locks[0].Guesses = []string{hostile}
	s.Cycles = []monitor.Cycle{{Certain: true, Steps: []monitor.Step{{PID: 1, Key: hostile, BlockedBy: 2}}}}
	return s
}

func TestJSONIsHarmlessAndMeansTheSame(t *testing.T) {
	s := hostileSnapshot()
	for name, write := range map[string]func(*bytes.Buffer) error{
		"json":   func(b *bytes.Buffer) error { return JSON(b, s, s.Action()) },
		"ndjson": func(b *bytes.Buffer) error { return NDJSON(b, s, s.Action()) },
	} {
		var b bytes.Buffer
		must.Succeed(t, write(&b))
		requireHarmless(t, name, b.String())
		if lines := strings.Count(b.String(), "\n"); (lines == 1) != (name == "ndjson") {
			t.Errorf("%s has %d lines", name, lines)
		}
		var read monitor.Snapshot
		var said struct {
			Headline string
			Action   struct{ What, Command string }
		}
		must.Succeed(t, errors.Join(json.Unmarshal(b.Bytes(), &read), json.Unmarshal(b.Bytes(), &said)))
		if a := s.Action(); said.Headline != a.String() || said.Action.What != a.Signal || said.Action.Command != a.Command("") {
			t.Errorf("%s says %+v", name, said)
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

func requireHarmless(t *testing.T, what, text string) {
	t.Helper()
	for _, r := range text {
		if r != '\n' && !unicode.IsPrint(r) {
			t.Errorf("%s has %U in it", what, r)
		}
	}
}

func TestTheTableOfHostileTextIsHarmless(t *testing.T) {
	s := hostileSnapshot()
	for width := 20; width < 300; width += 7 {
		for _, line := range Table(s, Filter{}, Server{Target: "x"}, width) {
			requireHarmless(t, "the table", line)
		}
	}
}
