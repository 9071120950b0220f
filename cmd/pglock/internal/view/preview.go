package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/pglock-toolkit/pglock/internal/display"
	"github.com/pglock-toolkit/pglock/monitor"
)

// Preview describes a session of the snapshot in lines of at most width columns: the session, what a signal does, and
// then its keys and their waiters, of which there can be many. Keys with waiters have their own lines.
func Preview(s *monitor.Snapshot, c monitor.Target, signal string, width int) []string {
	lines := []string{"session " + c.Ref}
	if c.Lease != nil {
		lines = Wrap(fmt.Sprintf("process %s, %s", Process(c.Session), Lease(c.Lease, s.TakenAt)), width, indent)
	} else {
		lines = append(lines, about(s, c.Session, width)...)
	}
	lines = append(lines, "")
	frees, vain, best := c.Effect(signal), InVain(c, signal), s.Action()
	switch {
	case signal == "cancel" && len(c.Waits) > 0:
		lines = append(lines, "Cancelling its wait "+frees.String()+".")
	case signal != "cancel" && (vain || frees.AtMost > 0):
		lines = append(lines, "Ending it "+frees.String()+".")
	}
	isBest := best.Signal == signal && slices.ContainsFunc(best.Whom, func(n *monitor.Node) bool { return n.ID() == c.ID() })
	if (vain || frees.AtMost > 0) && best.Signal != "" && !(isBest && len(best.Whom) == 1) {
		lines = append(lines, Wrap("The best action: "+Printable(best.String()), width, indent)...)
	}
	for _, warning := range c.Warnings(signal) {
		lines = append(lines, Wrap("* "+Printable(warning), width, indent)...)
	}
	for _, wait := range c.Waits {
		text := "It waits for " + Printable(wait.Label())
		if wait.Other != nil {
			text = "It waits for " + inMode(wait.Label(), wait.Mode) + blockedBy(s, *wait.Waiter)
		}
		lines = append(lines, Wrap(text+".", width, indent)...)
	}
	if len(c.Siblings) > 0 {
		lines = append(lines, Wrap("Other sessions of its process stay: "+strings.Join(pidsOf(c.Siblings), ", ")+".",
			width, indent)...)
	}
	lines = append(lines, heldLocks(s, c, width)...)
	lines = append(lines, otherWaiters(s, c, width)...)
	for i, line := range lines {
		lines[i] = Cut(line, width)
	}
	return lines
}

// InVain reports whether there is nothing to cancel, or the target waits or is waited for, and the signal lets no other session go on.
func InVain(c monitor.Target, signal string) bool {
	waits := slices.ContainsFunc(c.Waits, func(w monitor.Wait) bool { return !w.Expected })
	awaited := len(c.OtherWaiters) > 0 || slices.ContainsFunc(c.Holds, func(l monitor.Lock) bool {
		return slices.ContainsFunc(l.Waiters, func(w monitor.Waiter) bool { return !w.Expected })
	})
	return signal == "cancel" && c.CancelIsNoop() || (waits || awaited && signal == "terminate") && c.Effect(signal).AtMost == 0
}

// Details describes a session, a prepared transaction or a process: what [Preview] says of its end, and its whole statement.
func Details(s *monitor.Snapshot, session monitor.Session, width int) []string {
	if session.Prepared() {
		return Wrap("prepared transaction "+Who(session)+" of "+Field(session, "user", session.User)+": "+EndPrepared(session), width, indent)
	}
	target, err := s.Target(session.ID())
	if err != nil {
		return Wrap(Printable(err.Error()), width, indent)
	}
	lines := Preview(s, target, "terminate", width)
	if query := Query(target.Session); query != "" {
		lines = append(lines, "", "statement:")
		for line := range strings.Lines(query) { // a line's end can end a comment
			lines = append(lines, Wrap(Printable(strings.ReplaceAll(strings.TrimRight(line, "\r\n"), "\t", " ")), width, indent)...)
		}
	}
	return lines
}

// KeyDetails describes a lock with its holders and waiters.
func (p *Page) KeyDetails(lock *monitor.Lock, width int) []string {
	const most = 100
	lines := Wrap(heading(p.shown, *lock), width, indent)
	if !lock.InRow {
		lines = append(lines, fmt.Sprintf("in pg_locks: classid %d, objid %d, objsubid %d", uint32(lock.Class), uint32(lock.Object), lock.Objsubid))
	}
	for _, h := range lock.Holders[:min(most, len(lock.Holders))] {
		lines = append(lines, Wrap(fmt.Sprintf("%s holds it (%s): %s", Named(h.Session), Short(h.Mode), p.holderText(h)), width, indent)...)
	}
	for _, w := range lock.Waiters[:min(most, len(lock.Waiters))] {
		lines = append(lines, Wrap(fmt.Sprintf("%s, wants it %s%s", wait(p.shown, w), Short(w.Mode), blockedBy(p.shown, w)), width, indent)...)
	}
	if more := len(lock.Holders) + len(lock.Waiters) - 2*most; more > 0 {
		lines = append(lines, "and more (pglock monitor -o json lists them)")
	}
	return lines
}

// Noun is what a target is called: a session, or a process that uses locks in rows. Only processes wait for its locks then.
func Noun(c monitor.Target) string {
	if c.Lease != nil {
		return "process"
	}
	return "session"
}

// sessions counts sessions or processes, with the verb that follows.
func sessions(c monitor.Target, n int, one, more string) string {
	switch noun := Noun(c); {
	case n == 0:
		return "no " + noun + " " + one
	case n == 1:
		return "1 " + noun + " " + one
	case c.Lease != nil:
		return fmt.Sprintf("%d processes %s", n, more)
	}
	return fmt.Sprintf("%d sessions %s", n, more)
}

func about(s *monitor.Snapshot, session monitor.Session, width int) []string {
	facts := fmt.Sprintf("%suser %s, database %s, application %q, client %s", indent,
		Field(session, "user", session.User), Printable(session.Database),
		Field(session, "application", session.Application), Field(session, "client", session.Client))
	lines := Wrap(facts, width-len(indent), "")
	if what := doing(s, session); what != "" {
		lines = append(lines, what)
	} else {
		lines = append(lines, "its state is "+hidden)
	}
	for i, line := range lines {
		lines[i] = indent + line
	}
	return lines
}

// heldLocks describes the locks that the session holds.
func heldLocks(s *monitor.Snapshot, c monitor.Target, width int) []string {
	if len(c.Holds) == 0 {
		return []string{"It holds no advisory lock."}
	}
	them := "them"
	if len(c.Holds) == 1 {
		them = "it"
	}
	waiters := 0
	for _, lock := range c.Holds {
		waiters += len(lock.Waiters)
	}
	lines := []string{fmt.Sprintf("It holds %s; %s for %s.", count(len(c.Holds), "lock"), sessions(c, waiters, "waits", "wait"), them)}
	var unwanted []string
	for _, lock := range c.Holds {
		if len(lock.Waiters) == 0 {
			unwanted = append(unwanted, item(keyOf(s, lock)+sharedWith(c, lock)))
			continue
		}
		lines = append(lines, indent+keyOf(s, lock)+sharedWith(c, lock))
		for i, waiter := range lock.Waiters {
			if i == maxKeys {
				lines = append(lines, fmt.Sprintf("%s… and %d more", indent+indent, len(lock.Waiters)-maxKeys))
				break
			}
			for _, line := range Wrap(wait(s, waiter), width-2*len(indent), indent) {
				lines = append(lines, indent+indent+line)
			}
		}
	}
	if len(unwanted) > 0 && len(unwanted) < len(c.Holds) {
		lines = append(lines, indent+"and, without waiters:")
	}
	if more := len(unwanted) - maxKeys; more > 0 {
		unwanted = append(unwanted[:maxKeys], fmt.Sprintf("… and %d more", more))
	}
	for _, line := range Wrap(strings.Join(unwanted, ", "), width-2*len(indent), "") {
		if len(unwanted) > 0 {
			lines = append(lines, indent+indent+line)
		}
	}
	return lines
}

// maxKeys is how many keys, and how many waiters for each, a preview shows: the question below it fits a screen of 24 lines.
const maxKeys = 5

// otherWaiters lists the sessions that wait for other locks of the session, or behind it in a queue.
func otherWaiters(s *monitor.Snapshot, c monitor.Target, width int) (lines []string) {
	if len(c.OtherWaiters) == 0 {
		return nil
	}
	lines = append(lines, sessions(c, len(c.OtherWaiters), "waits", "wait")+" behind it:")
	for i, waiter := range c.OtherWaiters {
		if i == maxKeys {
			return append(lines, fmt.Sprintf("%s… and %d more", indent, len(c.OtherWaiters)-maxKeys))
		}
		lock := inMode(waiter.Label(), "")
		for _, b := range waiter.BlockedBy {
			if b.ID() == c.ID() {
				lock = inMode(waiter.Label(), b.Mode)
			}
		}
		text := fmt.Sprintf("%s: %s", lock, wait(s, *waiter.Waiter))
		if waiter.Mode != "" {
			text = fmt.Sprintf("%s, wanted %s: %s", lock, Short(waiter.Mode), wait(s, *waiter.Waiter))
		}
		for _, line := range Wrap(text, width-len(indent), indent) {
			lines = append(lines, indent+line)
		}
	}
	return lines
}

// blockedBy names the blockers of a waiter.
func blockedBy(s *monitor.Snapshot, w monitor.Waiter) string {
	names := Blockers(s.Tree(), w, s.BlockersMissing != "")
	if len(names) == 0 {
		return ""
	}
	return ", blocked by " + strings.Join(names, ", ")
}

// sharedWith names the other holders of a shared lock, which stays held without this session.
func sharedWith(c monitor.Target, lock monitor.Lock) string {
	others := slices.DeleteFunc(holderNames(lock.Holders), func(name string) bool { return name == Who(c.Session) })
	if len(others) == 0 {
		return ""
	}
	return ", shared with " + strings.Join(others, ", ")
}

func wait(s *monitor.Snapshot, w monitor.Waiter) string {
	waited := unknown
	if w.WaitingSince != nil {
		waited = display.Age(s.TakenAt.Sub(*w.WaitingSince))
	}
	return fmt.Sprintf("%s waits for %s: user %s, application %q", Who(w.Session), waited,
		Field(w.Session, "user", w.User), Field(w.Session, "application", w.Application))
}

// keyOf returns a lock's label, with its database if that is not the snapshot's.
func keyOf(s *monitor.Snapshot, lock monitor.Lock) string {
	if lock.Database == s.Database {
		return Printable(lock.Label())
	}
	return Printable(lock.Label()) + " in database " + Printable(cmp.Or(lock.Database, fmt.Sprint(lock.DatabaseOID)))
}

// item quotes a text that would be ambiguous in a list with commas.
func item(text string) string {
	if strings.Contains(text, ",") {
		return "'" + text + "'"
	}
	return text
}

func pidsOf(sessions []monitor.Session) []string {
	var pids []string
	for _, session := range sessions {
		pids = append(pids, fmt.Sprint(session.PID))
	}
	return pids
}

// Outcome describes the effect of a signal in lines of at most width columns: a summary, and a line for each lock that
// now has another holder or that the session still holds.
func Outcome(o monitor.Outcome, width int) []string {
	lines := Wrap(Printable(o.String()), width, indent)
	for _, result := range o.Locks {
		key := Printable(result.Lock.Label())
		switch {
		case result.Kept:
			lines = append(lines, indent+key+" is still held by it")
		case len(result.Holders) > 0:
			before, after := holderNames(result.Lock.Holders), holderNames(result.Holders)
			verb := "now"
			if !slices.ContainsFunc(after, func(name string) bool { return !slices.Contains(before, name) }) {
				verb = "still"
			}
			lines = append(lines, indent+key+" is "+verb+" held by "+strings.Join(after, ", "))
		}
	}
	for i, line := range lines {
		lines[i] = Cut(line, width)
	}
	return lines
}

// holderNames names each holder once.
func holderNames(holders []monitor.Holder) []string {
	var names []string
	for _, holder := range holders {
		if name := Who(holder.Session); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
