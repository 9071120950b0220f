package tui

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/monitor"
)

// label is the text shown for a lock.
func label(lock *monitor.Lock) string { return view.Printable(lock.Label()) }

// keyCell returns the label of a lock, with its database if that is not the connected one, and with
// its key if the label is a guess.
func keyCell(m Model, r row) string {
	text := label(r.lock)
	if r.lock.Database != m.table.snapshot.Database {
		text += " in " + databaseName(r.lock)
	}
	if key := view.Printable(r.lock.Key); key != label(r.lock) {
		text += " " + key
	}
	return text
}

func databaseName(lock *monitor.Lock) string {
	if lock.Database == "" {
		return fmt.Sprint(lock.DatabaseOID)
	}
	return view.Printable(lock.Database)
}

// keyOrNoneCell returns the lock that a session waits for, or else the one that others wait for.
func keyOrNoneCell(m Model, r row) string {
	switch {
	case r.session.otherLock() != nil:
		return waitLabel(*r.session.wait())
	case r.lock != nil:
		return keyCell(m, r)
	}
	for wait := range waitsBehind(m.table.snapshot, r.session.ID()) {
		if wait.Other != nil {
			return waitLabel(wait)
		}
	}
	return "?"
}

func heldByCell(_ Model, r row) string {
	switch n := len(r.lock.Holders); n {
	case 0:
		return "-"
	case 1:
		return sessionLabel(&r.lock.Holders[0].Session)
	default:
		return fmt.Sprintf("%d, %s", n, view.Printable(string(r.lock.Holders[0].Mode)))
	}
}

func holdersCell(_ Model, r row) string { return strconv.Itoa(len(r.lock.Holders)) }
func waitersCell(_ Model, r row) string { return strconv.Itoa(len(r.lock.Waiters)) }

func longestCell(_ Model, r row) string {
	switch {
	case r.longest < 0:
		return ""
	case r.longest == 0: // the server does not report it, or not yet
		return "?"
	}
	return view.Age(r.longest)
}

func trendCell(m Model, r row) string {
	trend := m.trends.of(lockIDOf(r.lock))
	if trend.allZero() {
		return ""
	}
	return trend.sparkline(m.trendWidth())
}

// treeCell marks a session with ~ if the one above it is only ahead in the queue, with +n if n more sessions hold
// what it waits for, and with ↻ if it closes a cycle.
func treeCell(_ Model, r row) string {
	text, n := sessionLabel(r.session.Session), r.session.node
	if n.Kind == monitor.BlockSoft {
		text = "~" + text
	}
	if r.id.repeated {
		return r.guide + "↻" + text
	}
	if more := otherHolders(n); more > 0 {
		text += fmt.Sprintf(" +%d", more)
	}
	return r.guide + text
}

// otherHolders returns how many sessions hold what a session waits for, besides the one that is shown.
func otherHolders(n *monitor.Node) (others int) {
	if n.Blocker == nil {
		return 0
	}
	for _, b := range n.Wait.BlockedBy {
		if b.Kind == monitor.BlockHard && b.ID() != n.Blocker.ID() {
			others++
		}
	}
	return others
}

func holdsOrWaitedCell(m Model, r row) string {
	if r.session.wait() == nil {
		return "holds"
	}
	return ownWaitCell(m, r)
}

func ownWaitCell(m Model, r row) string {
	wait := r.session.wait()
	switch {
	case wait == nil:
		return ""
	case wait.WaitingSince == nil:
		return "?"
	case wait.WaitingEstimated:
		return "≤" + view.Age(waited(m.table.snapshot, wait.Waiter))
	}
	return view.Age(waited(m.table.snapshot, wait.Waiter))
}

func modeCell(_ Model, r row) string {
	if wait := r.session.wait(); wait != nil {
		return view.Short(string(wait.Mode))
	}
	if n := r.session.node; n != nil {
		if _, mode, ok := n.Held(); ok {
			return view.Short(string(mode))
		}
	}
	if r.lock != nil {
		for i := range r.lock.Holders {
			if r.lock.Holders[i].Session.ID() == r.session.Session.ID() {
				return view.Short(string(r.lock.Holders[i].Mode))
			}
		}
	}
	return ""
}

// stateCell returns the state of a session and its age or, for a waiter, the session that blocks it.
func stateCell(m Model, r row) string {
	session, s := r.session.Session, m.table.snapshot
	if session.Prepared() {
		return strings.TrimSpace("prepared " + ageOf(s, session.PreparedAt))
	}
	if blocked := view.Blocked(m.table.tree.Node(session.ID())); blocked != "" {
		return blocked
	}
	return strings.TrimSpace(view.Field(*session, "state", view.Short(session.State)) + " " + ageOf(s, session.StateSince))
}

func sessionAgeCell(m Model, r row) string { return ageOf(m.table.snapshot, r.session.Since) }

func databaseCell(_ Model, r row) string { return view.Printable(r.session.Database) }

func clientCell(_ Model, r row) string {
	return view.Field(*r.session.Session, "client", view.Host(r.session.Client))
}

func queryCell(_ Model, r row) string {
	return view.Field(*r.session.Session, "query", view.OneLine(view.Query(*r.session.Session)))
}

// ofHolder returns a cell for a lock that shows the cell of its holder, if it has only one.
func ofHolder(cell func(Model, row) string) func(Model, row) string {
	return func(m Model, r row) string {
		if len(r.lock.Holders) != 1 {
			return ""
		}
		return cell(m, row{session: &sessionInfo{Session: &r.lock.Holders[0].Session}})
	}
}

// ageOf returns the age of a time, or "" if the time is unknown.
func ageOf(s *monitor.Snapshot, since *time.Time) string {
	if since == nil {
		return ""
	}
	return view.Age(s.TakenAt.Sub(*since))
}

func userCell(_ Model, r row) string { return view.Field(*r.session.Session, "user", r.session.User) }

// applicationCell returns the identifier of a prepared transaction, which has no application.
func applicationCell(_ Model, r row) string {
	if r.session.Prepared() {
		return view.Who(*r.session.Session)
	}
	return application(r.session.Session)
}

func pidCell(_ Model, r row) string {
	if r.session.Prepared() {
		return "-"
	}
	return view.Who(*r.session.Session)
}

func heldCell(_ Model, r row) string { return number(len(r.session.held)) }

func behindCell(_ Model, r row) string {
	if r.behind == 0 {
		return ""
	}
	return number(r.behind)
}

func blockersCell(m Model, r row) string {
	wait := r.session.wait()
	if wait == nil {
		return ""
	}
	return strings.Join(view.Blockers(m.table.tree, *wait.Waiter, m.table.snapshot.BlockersMissing != ""), " ")
}

func waitsForCell(m Model, r row) string {
	switch {
	case r.session.otherLock() != nil:
		return waitLabel(*r.session.wait())
	case r.lock == nil:
		return ""
	}
	return keyCell(m, r)
}

// number formats an integer with commas.
func number[T ~int | ~int64](n T) string {
	digits := strconv.FormatInt(int64(n), 10)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
