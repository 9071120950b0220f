package tui

import (
	"fmt"
	"slices"
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
	case r.node.otherLock != nil:
		return r.node.waitsFor()
	case r.lock != nil:
		return keyCell(m, r)
	}
	for _, waiter := range r.node.blocks {
		if waiter.otherLock != nil {
			return waiter.waitsFor()
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

// treeCell marks a session with ~ if all its blockers are waiters, with +n if it has n blockers besides the one
// above it, and with ↻ if it closes a cycle.
func treeCell(_ Model, r row) string {
	text := sessionLabel(r.node.Session)
	waiter := r.node.waiter
	if waiter != nil && !slices.ContainsFunc(waiter.BlockedBy, hard) {
		text = "~" + text
	}
	if r.id.repeated {
		return r.guide + "↻" + text
	}
	if waiter != nil {
		if more := hardBlockers(waiter) - 1; more > 0 {
			text += fmt.Sprintf(" +%d", more)
		}
	}
	return r.guide + text
}

func hardBlockers(waiter *monitor.Waiter) (n int) {
	for _, blocker := range waiter.BlockedBy {
		if hard(blocker) {
			n++
		}
	}
	return n
}

func hard(blocker monitor.Blocker) bool { return blocker.Kind == monitor.BlockHard }

func holdsOrWaitedCell(m Model, r row) string {
	if r.node.waiter == nil {
		return "holds"
	}
	return ownWaitCell(m, r)
}

func ownWaitCell(m Model, r row) string {
	waiter := r.node.waiter
	switch {
	case waiter == nil:
		return ""
	case waiter.WaitingSince == nil:
		return "?"
	case waiter.WaitingEstimated:
		return "≤" + view.Age(waited(m.table.snapshot, waiter))
	}
	return view.Age(waited(m.table.snapshot, waiter))
}

func modeCell(_ Model, r row) string {
	if r.node.waiter != nil {
		return view.Short(string(r.node.waiter.Mode))
	}
	if r.lock != nil {
		for i := range r.lock.Holders {
			if r.lock.Holders[i].Session.ID() == r.node.Session.ID() {
				return view.Short(string(r.lock.Holders[i].Mode))
			}
		}
	}
	return ""
}

// stateCell returns the state of a session and its age or, for a waiter, the session that blocks it.
func stateCell(m Model, r row) string {
	session, s := r.node.Session, m.table.snapshot
	if session.Prepared() {
		return strings.TrimSpace("prepared " + ageOf(s, session.PreparedAt))
	}
	if blocked := m.table.chain.Blocked(*session); blocked != "" {
		return blocked
	}
	return strings.TrimSpace(view.Field(*session, "state", view.Short(session.State)) + " " + ageOf(s, session.StateSince))
}

func sessionAgeCell(m Model, r row) string { return ageOf(m.table.snapshot, r.node.Since) }

func databaseCell(_ Model, r row) string { return view.Printable(r.node.Database) }

func clientCell(_ Model, r row) string {
	return view.Field(*r.node.Session, "client", view.Host(r.node.Client))
}

func queryCell(_ Model, r row) string {
	return view.Field(*r.node.Session, "query", view.OneLine(view.Query(*r.node.Session)))
}

// ofHolder returns a cell for a lock that shows the cell of its holder, if it has only one.
func ofHolder(cell func(Model, row) string) func(Model, row) string {
	return func(m Model, r row) string {
		if len(r.lock.Holders) != 1 {
			return ""
		}
		return cell(m, row{node: &sessionNode{Session: &r.lock.Holders[0].Session}})
	}
}

// ageOf returns the age of a time, or "" if the time is unknown.
func ageOf(s *monitor.Snapshot, since *time.Time) string {
	if since == nil {
		return ""
	}
	return view.Age(s.TakenAt.Sub(*since))
}

func userCell(_ Model, r row) string { return view.Field(*r.node.Session, "user", r.node.User) }

// applicationCell returns the identifier of a prepared transaction, which has no application.
func applicationCell(_ Model, r row) string {
	if r.node.Prepared() {
		return view.Who(*r.node.Session)
	}
	return application(r.node.Session)
}

func pidCell(_ Model, r row) string {
	if r.node.Prepared() {
		return "-"
	}
	return view.Who(*r.node.Session)
}

func heldCell(_ Model, r row) string { return number(len(r.node.held)) }

func behindCell(_ Model, r row) string {
	if r.behind == 0 {
		return ""
	}
	return number(r.behind)
}

func blockersCell(m Model, r row) string {
	if r.node.waiter == nil {
		return ""
	}
	return strings.Join(view.Blockers(*r.node.waiter, m.table.snapshot.BlockersMissing != ""), " ")
}

func waitsForCell(m Model, r row) string {
	switch {
	case r.node.otherLock != nil:
		return r.node.waitsFor()
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
