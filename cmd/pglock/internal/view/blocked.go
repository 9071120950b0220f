package view

import (
	"fmt"
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
	return "blocked by " + named(*n.Blocker.Session) + ", " + Printable(n.Wait.Label())
}

// named returns a session's process ID and application, without the mark of a pglock process.
func named(session monitor.Session) string {
	application, _ := appname.Split(session.Application)
	return strings.TrimSpace(Who(session) + " " + Field(session, "application", application))
}

// maxOtherWaits is how many lines about waits for other locks a table has.
const maxOtherWaits = 20

// otherWaits returns the lines of a table about the wait graph beyond advisory locks: each wait, and the states of the
// sessions that block others without waiting themselves.
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
		text := fmt.Sprintf("  %s waits for %s: %s", named(wait.Session), waited, Printable(wait.Lock.String()))
		if blockers := Blockers(tree, wait.Waiter, s.BlockersMissing != ""); len(blockers) > 0 {
			text += ", blocked by " + strings.Join(blockers, separator)
		}
		if lines = append(lines, text); below != "" {
			lines = append(lines, "    "+below)
		}
	}
	for _, session := range s.OtherSessions {
		if n := tree.Node(session.ID()); n != nil && n.Wait != nil || session.Prepared() {
			continue
		}
		if what := doing(s, session); what != "" {
			lines = append(lines, fmt.Sprintf("  %s blocks, %s", named(session), what))
		}
	}
	return lines
}
