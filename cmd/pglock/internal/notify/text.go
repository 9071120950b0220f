package notify

import (
	"fmt"
	"slices"
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
// The first ones are the latest headline, with what ends its root.
func (g Group) Text() string {
	alike := map[string]int{}
	for _, e := range g.Events {
		alike[alikeness(e)]++
	}
	lines, left := g.headline(), g.Omitted
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

// headline returns the latest headline, with the server before it and the command that ends its root below. The command
// is not cut.
func (g Group) headline() (lines []string) {
	for _, e := range slices.Backward(g.Events) {
		if e.Headline == "" {
			continue
		}
		lines = append(lines, shorten(view.Printable(e.Server.String()+": "+e.Headline)))
		if e.End != "" {
			lines = append(lines, e.End)
		}
		return lines
	}
	return nil
}

// alikeness is the same for events that have one line if they are many.
func alikeness(e journal.Event) string {
	return fmt.Sprint(e.Kind, "\n", e.LockType, " ", e.DatabaseOID, " ", e.Objsubid, " ", e.Number, "\n", e.Key)
}

func shorten(line string) string {
	if runes := []rune(line); len(runes) > maxLine {
		return string(runes[:maxLine-1]) + "…"
	}
	return line
}
