package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pglock-toolkit/pglock/internal/appname"
	"github.com/pglock-toolkit/pglock/monitor"
)

// Blocked says which session blocks another one, and for which lock: "blocked by 16439 ddl-owner, relation t". It is
// empty for a session that is not blocked, whose node may be nil.
func Blocked(n *monitor.Node) string {
	if n == nil || n.Blocker == nil {
		return ""
	}
	return "blocked by " + Named(*n.Blocker.Session) + ", " + Printable(n.Wait.Label())
}

// Named returns a session's process ID and application, without the mark of a pglock process.
func Named(session monitor.Session) string {
	application, _ := appname.Split(session.Application)
	return strings.TrimSpace(Who(session) + " " + Field(session, "application", application))
}

// maxOtherWaits is how many lines about waits for other locks a table has.
const maxOtherWaits = 20

// otherWaits returns the lines of a table about the wait graph beyond advisory locks: each wait, and what the sessions
// hold and do that block others without waiting themselves.
func (p *page) otherWaits() (lines []string) {
	s, tree := p.shown, p.tree
	if len(s.OtherWaits) == 0 {
		return nil
	}
	lines = append(lines, "locks of other types")
	for i, wait := range s.OtherWaits {
		below, hidden := p.folds.of(wait.ID(), wait.Lock.String(), s.TakenAt)
		if hidden {
			continue
		}
		if len(lines) > maxOtherWaits {
			lines = append(lines, fmt.Sprintf("  … %d more", len(s.OtherWaits)-i))
			break
		}
		waited := unknown
		if wait.WaitingSince != nil {
			waited = Age(s.TakenAt.Sub(*wait.WaitingSince))
		}
		text := fmt.Sprintf("  %s waits for %s: %s", Named(wait.Session), waited, inMode(wait.Lock, wait.Mode))
		if blockers := Blockers(tree, wait.Waiter, s.BlockersMissing != ""); len(blockers) > 0 {
			text += ", blocked by " + strings.Join(blockers, separator)
		}
		if lines = append(lines, text); below != "" {
			lines = append(lines, "    "+below)
		}
	}
	for _, session := range s.OtherSessions {
		if n := tree.Node(session.ID()); n != nil && n.Wait != nil {
			continue
		}
		text := "blocks"
		if held := HeldOthers(s, session.ID()); len(held) > 0 {
			text = "holds " + strings.Join(held, " and ")
		}
		if what := doing(s, session); what != "" {
			text += ", " + what
		}
		lines = append(lines, fmt.Sprintf("  %s %s", Named(session), text))
	}
	return lines
}

// HeldOthers returns the locks that a session holds and others wait for, and that are not advisory locks, each with the mode
// in which it holds it: "relation orders (AccExcl)".
func HeldOthers(s *monitor.Snapshot, id monitor.SessionID) (held []string) {
	for _, wait := range s.OtherWaits {
		for _, b := range wait.BlockedBy {
			text := inMode(wait.Lock, b.Mode)
			if b.ID() == id && b.Kind == "hard" && !slices.Contains(held, text) {
				held = append(held, text)
			}
		}
	}
	return held
}

// inMode returns a lock and how it is held or wanted, printable. The mode can be unknown.
func inMode(lock monitor.OtherLock, mode string) string {
	if mode == "" {
		return Printable(lock.String())
	}
	return fmt.Sprintf("%s (%s)", Printable(lock.String()), Short(mode))
}
