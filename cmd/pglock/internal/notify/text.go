package notify

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
)

const (
	maxLines = 12  // of a text
	maxLine  = 300 // characters of a line
)

// Text describes the group in a few lines, which are printable: names of strangers are in them, but no control characters.
// The first ones are the latest headline, with what carries it out.
func (g Group) Text() string {
	lines := g.headline()
	for i, e := range g.Events {
		if len(lines) == maxLines {
			return strings.Join(append(lines, fmt.Sprintf("%d more events", len(g.Events)-i+g.Omitted)), "\n")
		}
		lines = append(lines, shorten(view.EventText(e)))
	}
	if g.Omitted > 0 {
		lines = append(lines, fmt.Sprintf("%d more events", g.Omitted))
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

func shorten(line string) string {
	if runes := []rune(line); len(runes) > maxLine {
		return string(runes[:maxLine-1]) + "…"
	}
	return line
}
