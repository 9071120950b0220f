package notify

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/journal"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
)

const (
	maxLines  = 20  // of a text
	maxLine   = 300 // characters of a line
	manyAlike = 4   // from so many events of a kind and key on there is one line for them
)

// Text describes the group in a few lines, which are printable: names of strangers are in them, but no control characters.
// The first ones are the latest headline of each server, with what ends its root.
func (g Group) Text() string {
	alike := map[string]int{}
	for _, e := range g.Events {
		alike[alikeness(e)]++
	}
	lines, left := g.headlines(), g.Omitted
	for _, e := range g.Events {
		line, n := shorten(view.EventText(e)), alike[alikeness(e)]
		switch {
		case n == 0: // a line for it is there
			continue
		case n >= manyAlike:
			line += fmt.Sprintf(" (and %d more of %s)", n-1, e.Kind)
			alike[alikeness(e)] = 0
		default:
			n = 1
		}
		if len(lines) == maxLines {
			left += n
			continue
		}
		lines = append(lines, line)
	}
	if left > 0 {
		lines = append(lines, fmt.Sprintf("%d more events", left))
	}
	return strings.Join(lines, "\n")
}

// headlines returns the latest headline of each server that has one, at most half a text. A command is not cut.
func (g Group) headlines() (lines []string) {
	latest, servers := map[string]journal.Event{}, []string{}
	for _, e := range g.Events {
		if e.Headline == "" {
			continue
		}
		name := cmp.Or(e.Server.Label, e.Server.String())
		if _, known := latest[name]; !known {
			servers = append(servers, name)
		}
		latest[name] = e
	}
	for _, name := range servers[:min(len(servers), maxLines/4)] {
		e := latest[name]
		lines = append(lines, shorten(view.Printable(name+": "+e.Headline)))
		if e.End != "" {
			lines = append(lines, e.End)
		}
	}
	return lines
}

// alikeness is the same for events that have one line if they are many.
func alikeness(e journal.Event) string {
	return fmt.Sprint(e.Server.Label, "\n", e.Kind, "\n", e.LockType, " ", e.DatabaseOID, " ", e.Objsubid, " ", e.Number, "\n", e.Key)
}

func shorten(line string) string {
	if runes := []rune(line); len(runes) > maxLine {
		return string(runes[:maxLine-1]) + "…"
	}
	return line
}
