package view

import (
	"fmt"
	"strings"

	"github.com/pglock-toolkit/pglock/monitor"
)

// Headline returns the headline of the locks that the filter shows.
func (f Filter) Headline(all *monitor.Snapshot) monitor.Headline {
	named := f.named(all)
	if !f.narrows() {
		return named.Headline()
	}
	f.Waiting = false
	h := named.HeadlineOf(func(l *monitor.Lock) bool { return f.Shows(*l) }, f.ShowsOther)
	if len(f.Keys) == 0 {
		h.Elsewhere = named.WaitsElsewhere
	}
	return h
}

// HeadlineLines returns a headline in printable lines of at most width columns: the sentence, what the root runs or ran
// last, and the command that ends it, unless that is long ago, each but the first indented. A statement that is cut ends with an ellipsis. The command is broken so that a shell reads it as one; it
// is never cut, so a line of it can be wider.
func HeadlineLines(h monitor.Headline, on Server, width int) []string {
	lines := Wrap(Printable(h.String()), width, indent)
	if statement := StatementLine(h); statement != "" {
		lines = append(lines, Cut(indent+statement, width))
	}
	if command := EndCommand(h, on.Flags); command != "" && !on.Past {
		lines = append(lines, WrapCommand(indent+command, width)...)
	}
	return lines
}

// WrapCommand breaks a command before flags into lines of at most width columns if it can, in a way that a shell reads as one. It breaks none that has quotes, since the
// place might be between them.
func WrapCommand(command string, width int) (lines []string) {
	if Columns(command) <= width || strings.Contains(command, "'") {
		return []string{command}
	}
	const next = ` \`
	line := ""
	for i, flag := range strings.SplitAfter(strings.ReplaceAll(command, " -", "\x00 -"), "\x00") {
		flag = strings.TrimSuffix(flag, "\x00")
		if i > 0 && Columns(line+flag+next) > width {
			lines, line = append(lines, line+next), indent+indent
			flag = flag[1:]
		}
		line += flag
	}
	return append(lines, line)
}

// StatementLine returns what the root of a headline runs or ran last, printable: "ran: SELECT 1". It is empty if that is
// unknown.
func StatementLine(h monitor.Headline) string {
	statement := Printable(h.Statement())
	switch {
	case statement == "":
		return ""
	case h.Root.State == "active":
		return "runs: " + statement
	}
	return "ran: " + statement
}

// EndCommand returns what ends the root of a headline, printable: the command for a shell, or for a prepared transaction a
// statement of SQL. It is empty if there is no root, or if it is not known well enough. server names the
// server on a command line, with a space before it, or is empty.
func EndCommand(h monitor.Headline, server string) string {
	switch {
	case h.Root == nil:
		return ""
	case h.Root.Prepared():
		return EndPrepared(*h.Root.Session)
	case h.Ref != "":
		return EndSession("terminate", h.Ref, server)
	}
	return fmt.Sprintf("pglock terminate%s %d", server, h.Root.PID)
}

// EndPrepared returns the SQL that ends a prepared transaction, printable, with the database in which it has to be run.
func EndPrepared(s monitor.Session) string {
	sql := s.RollbackSQL()
	if sql != "" && s.Database != "" {
		sql += "; -- in database " + s.Database
	}
	return Printable(sql)
}

// EndSession returns the command that signals the session or process that a [monitor.Target.Ref] names, on the server that the
// words name ("" or with a space before them).
func EndSession(signal string, ref, server string) string {
	flag := "session"
	if !strings.ContainsAny(ref, "@#") {
		flag = "holder"
	}
	return fmt.Sprintf("pglock %s%s --%s %s", signal, server, flag, ref)
}
