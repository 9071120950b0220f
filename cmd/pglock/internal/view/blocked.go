package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pglock-toolkit/pglock/internal/appname"
	"github.com/pglock-toolkit/pglock/monitor"
)

// Chain knows the sessions and waits of a snapshot, to say which session blocks another.
type Chain struct {
	snapshot *monitor.Snapshot
	sessions map[monitor.SessionID]monitor.Session
	waits    map[monitor.SessionID]monitor.Wait
}

// NewChain returns the chain of a snapshot.
func NewChain(s *monitor.Snapshot) Chain {
	c := Chain{s, map[monitor.SessionID]monitor.Session{}, map[monitor.SessionID]monitor.Wait{}}
	for session := range s.Sessions() {
		c.sessions[session.ID()] = session
	}
	for wait := range s.Waits() {
		c.waits[wait.ID()] = wait
	}
	return c
}

// Wait returns the wait of a session, or false if it does not wait.
func (c Chain) Wait(session monitor.Session) (monitor.Wait, bool) {
	wait, ok := c.waits[session.ID()]
	return wait, ok
}

// Blocked says which session blocks another one, and for which lock: "blocked by 16439 ddl-owner, relation t". It is
// empty for a session that is not blocked.
func (c Chain) Blocked(session monitor.Session) string {
	wait, ok := c.waits[session.ID()]
	if !ok || len(wait.BlockedBy) == 0 {
		return ""
	}
	first := wait.BlockedBy[max(0, slices.IndexFunc(wait.BlockedBy, isHard))]
	blocker := c.sessions[first.ID()]
	if blocker.ID() != first.ID() {
		blocker = monitor.Session{PID: first.PID, GID: first.GID}
	}
	return "blocked by " + c.named(blocker) + ", " + Printable(wait.Label())
}

func isHard(b monitor.Blocker) bool { return b.Kind == monitor.BlockHard }

// named returns a session's process ID and application, without the mark of a pglock process.
func (c Chain) named(session monitor.Session) string {
	application, _ := appname.Split(session.Application)
	return strings.TrimSpace(Who(session) + " " + Field(session, "application", application))
}

// maxOtherWaits is how many waits for other locks a table shows.
const maxOtherWaits = 20

// otherWaits returns the lines of a table about the wait graph beyond advisory locks: each wait, and the states of the
// sessions that block others without waiting themselves.
func (c Chain) otherWaits() (lines []string) {
	s := c.snapshot
	if len(s.OtherWaits) == 0 {
		return nil
	}
	lines = append(lines, "locks of other types")
	for i, wait := range s.OtherWaits {
		if i == maxOtherWaits {
			lines = append(lines, fmt.Sprintf("  … %d more", len(s.OtherWaits)-maxOtherWaits))
			break
		}
		waited := unknown
		if wait.WaitingSince != nil {
			waited = Age(s.TakenAt.Sub(*wait.WaitingSince))
		}
		text := fmt.Sprintf("  %s waits for %s: %s", c.named(wait.Session), waited, Printable(wait.Lock.String()))
		if blockers := Blockers(wait.Waiter, s.BlockersMissing != ""); len(blockers) > 0 {
			text += ", blocked by " + strings.Join(blockers, separator)
		}
		lines = append(lines, text)
	}
	for _, session := range s.OtherSessions {
		if _, waits := c.waits[session.ID()]; waits || session.Prepared() {
			continue
		}
		if what := doing(s, session); what != "" {
			lines = append(lines, fmt.Sprintf("  %s blocks, %s", c.named(session), what))
		}
	}
	return lines
}
