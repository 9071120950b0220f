package view

import (
	"fmt"
	"strings"

	"github.com/pglock-toolkit/pglock/monitor"
)

// HeadlineLines returns the headline of an action in printable lines of at most width columns: the sentence, what the session that
// it is about runs or ran last, which is cut, and the command, unless that is long ago. The command can be wider: cut, it would end
// something else, and a terminal breaks it so that it can be copied.
func HeadlineLines(h monitor.Action, on Server, width int) []string {
	lines := Wrap(Printable(h.String()), width, indent)
	if statement := StatementLine(h); statement != "" {
		lines = append(lines, Cut(indent+statement, width))
	}
	if command := EndCommand(h, on.Flags); command != "" && !on.Past {
		lines = append(lines, indent+command)
	}
	return lines
}

// StatementLine returns what the session that an action is about runs or ran last, printable: "ran: SELECT 1". It is empty if that is
// unknown, and for a session of a Locker, which runs pglock's own statements.
func StatementLine(h monitor.Action) string {
	if len(h.Whom) == 0 || h.Whom[0].Session.Process != "" {
		return ""
	}
	statement := Printable(withoutComment(h.Whom[0].Query))
	switch {
	case statement == "":
		return ""
	case h.Whom[0].State == "active":
		return "runs: " + statement
	}
	return "ran: " + statement
}

// EndCommand returns what carries an action out, printable: the command for a shell, or for a prepared transaction a
// statement of SQL. It is empty if there is none. server names the server on a command line, with a space before it, or is empty.
func EndCommand(h monitor.Action, server string) string { return Printable(h.Command(server)) }

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
	if !strings.Contains(ref, "@") {
		ref = "--holder " + ref
	}
	return fmt.Sprintf("pglock %s%s %s", signal, server, ref)
}
