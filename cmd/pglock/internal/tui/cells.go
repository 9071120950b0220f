package tui

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/journal"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/monitor"
)

// keyCell returns the label of a lock, with its database if that is not the connected one, and with
// its key if the label is a guess.
func keyCell(m Model, r row) string {
	text := label(r.lock)
	if r.lock.InRow {
		return text
	}
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

// modeAndKeyCell is keyOrNoneCell, with the mode before it where there is no column MODE.
func modeAndKeyCell(m Model, r row) string {
	if m.width >= narrow {
		return keyOrNoneCell(m, r)
	}
	return strings.TrimSpace(modeCell(m, r) + " " + keyOrNoneCell(m, r))
}

func heldByCell(_ Model, r row) string {
	switch holders := r.lock.Holders; len(holders) {
	case 0:
		return "-"
	case 1:
		return sessionLabel(&holders[0].Session)
	default:
		return fmt.Sprintf("%d, %s", len(holders), view.Printable(holders[0].Mode))
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

// treeCell marks a session with ~ if the one above it is only ahead in the queue, with +n if n more sessions hold
// what it waits for, with ↻ if it closes a cycle, and with ▸ if the row can be unfolded.
func treeCell(_ Model, r row) string {
	text, n := sessionLabel(r.session.Session), r.session.node
	if r.fold != nil {
		text = number(len(r.fold)) + " waiters"
	}
	if n.Kind == "soft" {
		text = "~" + text
	}
	switch more := view.OtherHolders(n); {
	case r.id.repeated:
		text = "↻" + text
	case r.isFolded():
		text = "▸ " + text
	case more > 0:
		text += fmt.Sprintf(" +%d", more)
	}
	return r.guide + text
}

func holdsOrWaitedCell(m Model, r row) string {
	if r.session.wait() == nil {
		return "holds"
	}
	return ownWaitCell(m, r)
}

// ownWait returns how long the session of a row has waited, or a negative duration if it does not wait.
func ownWait(m Model, r row) time.Duration {
	wait := r.session.wait()
	if wait == nil {
		return -1
	}
	return waited(m.table.snapshot, wait.Waiter)
}

func ownWaitCell(m Model, r row) string {
	wait := r.session.wait()
	switch {
	case wait == nil:
		return ""
	case wait.WaitingSince == nil:
		return "?"
	}
	return view.Age(waited(m.table.snapshot, wait.Waiter))
}

func modeCell(m Model, r row) string {
	mode := r.mode()
	if m.width < broader {
		return view.Short(mode)
	}
	return view.Printable(strings.TrimSuffix(mode, "Lock"))
}

// mode returns how the session of a row wants the lock that it waits for, or else how it holds the one that others wait
// for. It is empty if that is unknown.
func (r row) mode() string {
	if wait := r.session.wait(); wait != nil {
		return wait.Mode
	}
	if n := r.session.node; n != nil {
		if _, mode, ok := n.Held(); ok {
			return mode
		}
	}
	if r.lock != nil {
		if h := heldBy(r.lock, r.session.ID()); h != nil {
			return h.Mode
		}
	}
	return ""
}

// stateOrCodeCell is a cell of the tree, where the session above a waiter is the one that blocks it: it has the tags of the
// waiter's statement or, if it has none and there is no column for it, the statement. For other sessions it is stateCell.
func stateOrCodeCell(m Model, r row) string {
	session := *r.session.Session
	switch {
	case r.fold != nil:
		return foldText(m.table.snapshot, r.fold)
	case r.session.wait() == nil || session.Lease != nil:
		return stateCell(m, r)
	}
	if tags := journal.TagsText(session.Query); tags != "" {
		return view.Field(session, "query", tags)
	}
	switch {
	case session.Process != "": // its statement is one of pglock's own
		return "pglock " + view.Printable(session.Process)
	case m.width < broad && !slices.Contains(session.Hidden, "query"): // as it is in a recording
		return queryCell(m, r)
	}
	return activityCell(m, r)
}

// stateCell returns the state of a session and its age or, for a waiter, the session that blocks it. Of a process it returns
// the lease, and how it holds the lock that is shown.
func stateCell(m Model, r row) string {
	s := m.table.snapshot
	switch n := r.session.node; {
	case r.session.Prepared():
		return strings.TrimSpace("prepared " + ageOf(s, r.session.PreparedAt))
	case n != nil && n.Blocker != nil && m.table.query.page == pageKeys:
		return "blocked by " + sessionLabel(n.Blocker.Session) + ", " + waitLabel(*n.Wait)
	case r.session.Lease != nil:
		return processState(s, r.session.Session, r.lock)
	}
	return activityCell(m, r)
}

// processState describes the lease of a process and, if it holds the lock, how.
func processState(s *monitor.Snapshot, p *monitor.Session, lock *monitor.Lock) string {
	lease := "lease ?"
	switch left, known := p.Lease.Left(s.TakenAt); {
	case known && left > 0:
		lease = "lease " + view.Age(left)
	case known:
		lease = "lease over " + view.Age(-left)
	}
	if lock != nil {
		if h := heldBy(lock, p.ID()); h != nil {
			age, generation, _ := strings.Cut(rowHeld(s, h), ", ")
			return fmt.Sprintf("%s, %s, %s", age, lease, generation)
		}
	}
	return lease
}

// activityCell returns the state of a session and its age.
func activityCell(m Model, r row) string {
	session := r.session.Session
	return strings.TrimSpace(view.Field(*session, "state", view.Short(session.State)) + " " + ageOf(m.table.snapshot, session.StateSince))
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
		session := &r.lock.Holders[0].Session
		r.session = &sessionInfo{Session: session, node: m.table.tree.Node(session.ID())}
		return cell(m, r)
	}
}

// ageOf returns the age of a time, or "" if the time is unknown.
func ageOf(s *monitor.Snapshot, since *time.Time) string {
	if since == nil {
		return ""
	}
	return view.Age(s.TakenAt.Sub(*since))
}

// ofOne returns a cell that is empty in a row for several waiters.
func ofOne(cell func(Model, row) string) func(Model, row) string {
	return func(m Model, r row) string {
		if r.fold != nil {
			return ""
		}
		return cell(m, r)
	}
}

func userCell(_ Model, r row) string { return view.Field(*r.session.Session, "user", r.session.User) }

func behindCell(_ Model, r row) string {
	if r.behind == 0 {
		return ""
	}
	return number(r.behind)
}

// number formats an integer with commas.
func number[T ~int | ~int64](n T) string {
	digits := strconv.FormatInt(int64(n), 10)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
