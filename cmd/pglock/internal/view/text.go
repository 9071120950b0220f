package view

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// indent is that of what belongs to the line before, and separator stands between the items of a list.
const indent, separator = "  ", " "

// Printable makes foreign text safe for a terminal: it escapes control characters, characters that change the direction
// of writing, and invalid UTF-8.
func Printable(s string) string {
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], string(utf8.RuneError)):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			quoted := fmt.Sprintf("%+q", r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
	}
	return b.String()
}

// inert matches a word as [Inert] wants it.
var inert = regexp.MustCompile(`^[A-Za-z0-9_./@][A-Za-z0-9_.:/@%+,=-]*$`)

// Inert reports whether bash, zsh, fish and PowerShell take a word literally wherever it gets on a command line, quoted or
// not. What they expand at the start of a word (~user, zsh's =command, fish's %self) and flags are not inert. An @ at the
// start, which all raw keys have, PowerShell expands at most to a variable.
func Inert(word string) bool { return inert.MatchString(word) }

// Word returns printable text as a word of a shell's command line, in quotes where it needs some.
func Word(text string) string {
	if text = Printable(text); Inert(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// Columns returns how many columns printable text takes on a terminal.
func Columns(s string) int { return ansi.StringWidth(s) }

// Cut shortens printable text to at most n columns. A shortened text ends with an ellipsis.
func Cut(s string, n int) string { return ansi.Truncate(s, max(n, 0), "…") }

// Fit makes printable text exactly n columns wide.
func Fit(s string, n int, right bool) string {
	s = Cut(s, n)
	padding := strings.Repeat(" ", max(0, n-Columns(s)))
	if right {
		return padding + s
	}
	return s + padding
}

// Wrap breaks printable text into lines of at most n columns. All but the first begin with indent. It splits long words.
func Wrap(s string, n int, indent string) []string {
	n = max(n, Columns(indent)+2) // so that each line has room for a character
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(s) {
		switch {
		case line == "":
			line = word
		case Columns(line)+1+Columns(word) > n:
			lines, line = append(lines, line), indent+word
		default:
			line += " " + word
		}
		for Columns(line) > n {
			head := ansi.Truncate(line, n, "")
			lines, line = append(lines, head), indent+line[len(head):]
		}
	}
	return append(lines, line)
}
