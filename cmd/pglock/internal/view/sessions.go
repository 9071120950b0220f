package view

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pglock-toolkit/pglock/internal/appname"
	"github.com/pglock-toolkit/pglock/internal/display"
	"github.com/pglock-toolkit/pglock/monitor"
)

const (
	hidden  = "(hidden)"
	unknown = "?"
)

func gid(gid string) string {
	if gid == "" {
		return unknown
	}
	return fmt.Sprintf("'%s'", Printable(gid))
}

// Field returns the cell for a session's field, which is named as in JSON. A field that the server did not report is
// marked. A session without a user has just begun or ended.
func Field(session monitor.Session, name, value string) string {
	switch {
	case slices.Contains(session.Hidden, "user"):
		return unknown
	case slices.Contains(session.Hidden, name):
		return hidden
	}
	return Printable(value)
}

// Query returns what a session runs or ran last. It is empty for an idle session of a Locker, whose last query is one of
// pglock's own.
func Query(session monitor.Session) string {
	if session.Process != "" && session.State == "idle" {
		return ""
	}
	return session.Query
}

// Short abbreviates PostgreSQL's longest states and its lock modes, the latter to nine characters at most, and escapes
// unprintable characters in others.
func Short(word string) string {
	if abbreviated, ok := abbreviations[word]; ok {
		return abbreviated
	}
	return Printable(display.Mode(word))
}

var abbreviations = map[string]string{
	"idle in transaction":           "idle in tx",
	"idle in transaction (aborted)": "tx aborted",
	"fastpath function call":        "fastpath",
}

// maxShownBlockers is how many blockers of a waiter a table names.
const maxShownBlockers = 4

// Named returns a session's process ID and application, without the mark of a pglock process.
func Named(session monitor.Session) string {
	application, _ := appname.Split(session.Application)
	return strings.TrimSpace(Who(session) + " " + Field(session, "application", application))
}

// Blockers returns the process IDs and identifiers of a waiter's blockers, soft ones marked with ~. The first is the one
// that the tree prefers. Of many only some are named, and the last text, such as "+197", counts the others.
func Blockers(tree *monitor.Tree, w monitor.Waiter, missing bool) []string {
	if missing && w.Lease == nil {
		return []string{unknown}
	}
	var names []string
	all := tree.Blockers(w)
	for i, blocker := range all {
		if i == maxShownBlockers {
			return append(names, fmt.Sprintf("+%d", len(all)-i))
		}
		who := fmt.Sprint(blocker.PID)
		switch {
		case blocker.Holder != "":
			who = Who(*tree.Node(blocker.ID()).Session)
		case blocker.PID == 0:
			who = gid(blocker.GID)
		}
		if blocker.Kind == "soft" {
			who = "~" + who
		}
		names = append(names, who)
	}
	return names
}

// Who names a session by its process ID, a prepared transaction by its identifier in quotes, and a process that uses locks in
// rows by its process ID and host or, if these are unknown, the ID that its locks have.
func Who(session monitor.Session) string {
	switch l := session.Lease; {
	case l != nil && l.Host != "":
		return fmt.Sprintf("%d@%s", l.PID, Printable(l.Host))
	case l != nil:
		return Printable(l.Holder)
	case session.Prepared():
		return gid(session.GID)
	}
	return fmt.Sprint(session.PID)
}

// Process names a process that uses locks in rows: what it calls itself, where it runs, and as whom.
func Process(s monitor.Session) string {
	text := Printable(s.Lease.Holder)
	if s.Application != "" {
		text += " " + Printable(s.Application)
	}
	switch {
	case slices.Contains(s.Hidden, "user"):
		return text + " (unknown)"
	case s.Lease.Host != "":
		text += fmt.Sprintf(" on %s, process %d", Printable(s.Lease.Host), s.Lease.PID)
	case slices.Contains(s.Hidden, "client"):
		text += " on " + hidden
	}
	return text + ", role " + Printable(s.User)
}

// Lease says how long a lease lasts.
func Lease(l *monitor.Lease, at time.Time) string {
	left, known := l.Left(at)
	switch {
	case !known:
		return "lease unknown"
	case left <= 0:
		return "lease over for " + display.Age(-left)
	}
	return "lease left " + display.Age(left)
}

// inMode returns a lock and how it is held or wanted, printable. The mode can be unknown.
func inMode(label, mode string) string {
	if mode == "" {
		return Printable(label)
	}
	return fmt.Sprintf("%s (%s)", Printable(label), Short(mode))
}
