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

// keyCell adds the database of a lock if the connection has another one, and the key after a guess.
func keyCell(m Model, r row) string {
	text := label(r.lock)
	if r.lock.Database != m.board.snapshot.Database {
		text += " in " + database(r.lock)
	}
	if key := view.Printable(r.lock.Key); key != label(r.lock) {
		text += " " + key
	}
	return text
}

func database(lock *monitor.Lock) string {
	if lock.Database == "" {
		return fmt.Sprint(lock.DatabaseOID)
	}
	return view.Printable(lock.Database)
}

// keyOrNoneCell is the lock that a session waits for, or else the one that others wait for.
func keyOrNoneCell(m Model, r row) string {
	switch {
	case r.person.other != nil:
		return r.person.waitsFor()
	case r.lock != nil:
		return keyCell(m, r)
	}
	for _, waiter := range r.person.inWayOf {
		if waiter.other != nil {
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
		return named(&r.lock.Holders[0].Session)
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
	trend := m.trends.of(placeOf(r.lock))
	if trend.quiet() {
		return ""
	}
	return trend.sparkline(m.trendWidth())
}

// branchCell marks a session with ~ if all its blockers are waiters, with +n if it has n blockers besides the one
// above, and with ↻ at the end of a cycle.
func branchCell(_ Model, r row) string {
	text := named(r.person.Session)
	waiter := r.person.waiter
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
	if r.person.waiter == nil {
		return "holds"
	}
	return ownWaitCell(m, r)
}

func ownWaitCell(m Model, r row) string {
	waiter := r.person.waiter
	switch {
	case waiter == nil:
		return ""
	case waiter.WaitingSince == nil:
		return "?"
	case waiter.WaitingEstimated:
		return "≤" + view.Age(waited(m.board.snapshot, waiter))
	}
	return view.Age(waited(m.board.snapshot, waiter))
}

func modeCell(_ Model, r row) string {
	if r.person.waiter != nil {
		return view.Short(string(r.person.waiter.Mode))
	}
	if r.lock != nil {
		for i := range r.lock.Holders {
			if r.lock.Holders[i].Session.ID() == r.person.Session.ID() {
				return view.Short(string(r.lock.Holders[i].Mode))
			}
		}
	}
	return ""
}

// stateCell is the state of a session, and for how long; for a waiter, the session that blocks it.
func stateCell(m Model, r row) string {
	session, s := r.person.Session, m.board.snapshot
	if session.Prepared() {
		return strings.TrimSpace("prepared " + ageOf(s, session.PreparedAt))
	}
	if blocked := m.board.chain.Blocked(*session); blocked != "" {
		return blocked
	}
	return strings.TrimSpace(view.Field(*session, "state", view.Short(session.State)) + " " + ageOf(s, session.StateSince))
}

func sessionAgeCell(m Model, r row) string { return ageOf(m.board.snapshot, r.person.Since) }

func databaseCell(_ Model, r row) string { return view.Printable(r.person.Database) }

func clientCell(_ Model, r row) string {
	return view.Field(*r.person.Session, "client", view.Host(r.person.Client))
}

func queryCell(_ Model, r row) string {
	return view.Field(*r.person.Session, "query", view.OneLine(r.person.Query))
}

// ofHolder makes a cell for a key from the cell for its only holder.
func ofHolder(cell func(Model, row) string) func(Model, row) string {
	return func(m Model, r row) string {
		if len(r.lock.Holders) != 1 {
			return ""
		}
		return cell(m, row{person: &person{Session: &r.lock.Holders[0].Session}})
	}
}

// ageOf is empty when the time is not known.
func ageOf(s *monitor.Snapshot, since *time.Time) string {
	if since == nil {
		return ""
	}
	return view.Age(s.TakenAt.Sub(*since))
}

func userCell(_ Model, r row) string { return view.Field(*r.person.Session, "user", r.person.User) }

// applicationCell is the identifier of a prepared transaction.
func applicationCell(_ Model, r row) string {
	if r.person.Prepared() {
		return view.Who(*r.person.Session)
	}
	return application(r.person.Session)
}

func pidCell(_ Model, r row) string {
	if r.person.Prepared() {
		return "-"
	}
	return view.Who(*r.person.Session)
}

func heldCell(_ Model, r row) string { return number(len(r.person.held)) }

func behindCell(_ Model, r row) string {
	if r.behind == 0 {
		return ""
	}
	return number(r.behind)
}

func blockersCell(m Model, r row) string {
	if r.person.waiter == nil {
		return ""
	}
	return strings.Join(view.Blockers(*r.person.waiter, m.board.snapshot.BlockersMissing != ""), " ")
}

func waitsForCell(m Model, r row) string {
	switch {
	case r.person.other != nil:
		return r.person.waitsFor()
	case r.lock == nil:
		return ""
	}
	return keyCell(m, r)
}

// number writes an integer with commas.
func number[T ~int | ~int64](n T) string {
	digits := strconv.FormatInt(int64(n), 10)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
