package view

import (
	"fmt"
	"net"
	"slices"

	"github.com/pglock-toolkit/pglock/monitor"
)

func holderRow(s *monitor.Snapshot, h monitor.Holder) *row {
	if h.Prepared() {
		return preparedRow(s, h)
	}
	r := sessionRow("holds", h.Mode, "", h.Session)
	return &r
}

func waiterRow(s *monitor.Snapshot, w monitor.Waiter) *row {
	waited := unknown // the server does not tell, or not yet
	if w.WaitingSince != nil {
		waited = age(s.TakenAt.Sub(*w.WaitingSince))
	}
	r := sessionRow("waits", w.Mode, waited, w.Session)
	r.blockers = blockers(w, s.BlockersMissing != "")
	return &r
}

const (
	hidden  = "(hidden)"
	unknown = "?"
)

func sessionRow(role string, mode monitor.Mode, waited string, session monitor.Session) row {
	return row{cells: []string{role, fmt.Sprint(session.PID), short(string(mode)), waited,
		field(session, "user", session.User),
		field(session, "application", session.Application),
		field(session, "client", host(session.Client)),
		field(session, "state", short(session.State)),
	}}
}

// preparedRow has no session to show, but an identifier that COMMIT PREPARED and ROLLBACK PREPARED take.
func preparedRow(s *monitor.Snapshot, h monitor.Holder) *row {
	text := "prepared transaction " + gid(h.GID)
	if h.PreparedAt != nil {
		text += fmt.Sprintf(", %s ago", age(s.TakenAt.Sub(*h.PreparedAt)))
	}
	return &row{cells: []string{"holds", "-", short(string(h.Mode)), "", field(h.Session, "user", h.User)}, text: text}
}

func gid(gid string) string {
	if gid == "" {
		return unknown
	}
	return fmt.Sprintf("'%s'", Printable(gid))
}

// field is a cell, or says that the server did not tell. A session whose user is not known has just begun or ended.
func field(session monitor.Session, name, value string) string {
	switch {
	case slices.Contains(session.Hidden, "user"):
		return unknown
	case slices.Contains(session.Hidden, name):
		return hidden
	}
	return Printable(value)
}

// host leaves out the port, which the table has no room for.
func host(client string) string {
	if host, _, err := net.SplitHostPort(client); err == nil {
		return host
	}
	return client
}

// short abbreviates the words of PostgreSQL that would widen the table most.
func short(word string) string {
	if abbreviated, ok := abbreviations[word]; ok {
		return abbreviated
	}
	return Printable(word)
}

var abbreviations = map[string]string{
	"exclusive":                     "excl",
	"idle in transaction":           "idle in tx",
	"idle in transaction (aborted)": "tx aborted",
	"fastpath function call":        "fastpath",
}

// blockers marks those that are soft. Those who hold the lock come first: they are what everybody waits for.
func blockers(w monitor.Waiter, missing bool) []string {
	if missing {
		return []string{unknown}
	}
	var hard, soft []string
	for _, blocker := range w.BlockedBy {
		who := fmt.Sprint(blocker.PID)
		if blocker.PID == 0 {
			who = gid(blocker.GID)
		}
		if blocker.Kind == monitor.Soft {
			soft = append(soft, "~"+who)
		} else {
			hard = append(hard, who)
		}
	}
	return append(hard, soft...)
}
