package monitor

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/pglock-toolkit/pglock/internal/appname"
	"github.com/pglock-toolkit/pglock/internal/display"
)

// String returns the headline: the action as one sentence. It has names as they are: escape control characters before you write
// it to a terminal. Some examples:
//
//	Terminate 4711 billing, idle in transaction for 4m02s, holds relation orders (AccExcl): frees 12, longest wait 3m58s
//	Cancel 4711 flyway, which waits for relation orders (AccExcl) for 40s: frees 20, longest wait 38s
//	Terminate 3 sessions that share @500 (4711 web, 4712 web, 4713 web); all must end: frees 1
//	Deadlock for 3s: 11 → 12 → 11. Terminate 12 billing: frees 1, then 3 more
//	2 waiters, longest wait 40s, for relation orders behind 4711 (autovacuum worker): let it end: it prevents wraparound, so it would begin again at once
//	Nothing waits. 13 locks held.
func (a Action) String() string {
	switch {
	case a.Waiting == 0:
		return a.quietText()
	case a.Signal == "":
		return a.helplessText() + a.elsewhereText()
	}
	text := a.text()
	if a.Longest > 0 {
		text += ", longest wait " + display.Age(a.Longest)
	}
	if more := a.Waiting - a.AtMost - a.targetsThatWait(); more > 0 && !a.filtered {
		text += "; " + plural(more, "other waits", "others wait")
	}
	if a.Other != nil {
		text += "; or " + lowerFirst(a.Other.text())
	}
	return text + a.elsewhereText()
}

// text says what to do to whom, and what that frees.
func (a Action) text() string {
	text := a.doText()
	if a.Cycle != nil {
		text = "Deadlock"
		if a.Cycle.Since != nil {
			text += " for " + display.Age(a.at.Sub(*a.Cycle.Since))
		}
		text += fmt.Sprintf(": %s. %s %s", a.Cycle, a.verb(), a.Whom[0].Who())
	}
	if len(a.holds) > 0 && !slices.Equal(a.holds, []string{a.lock}) {
		text += ", which is " + strings.Join(a.holds, ", ")
	}
	text += ": " + a.Effect.String()
	if a.nextHidden {
		text += " (the next blocker is not known)"
	}
	if a.Why != "" {
		text += " (" + a.Why + ")"
	}
	return text
}

func (a Action) verb() string {
	switch a.Signal {
	case signalCancel:
		return "Cancel"
	case signalRollback:
		return "Roll back"
	}
	return "Terminate"
}

// doText says what to do to whom, and what these do and hold.
func (a Action) doText() string {
	switch first := a.Whom[0]; {
	case len(a.Whom) > 1:
		var all []string
		for _, n := range a.Whom {
			all = append(all, n.Who())
		}
		does, must := "share "+a.lock, "end"
		if a.Signal == signalCancel {
			does, must = "wait for "+a.heldText(), "be cancelled"
		}
		return fmt.Sprintf("%s %d sessions that %s (%s); all must %s", a.verb(), len(all), does, strings.Join(all, ", "), must)
	case a.Signal == signalCancel:
		return fmt.Sprintf("Cancel %s, which waits for %s%s%s", first.Who(), a.heldText(), a.forText(" for ", ""), a.elsewhere(first))
	}
	return a.verb() + " " + a.whoText()
}

// whoText says who the first is, what it does, and what it holds.
func (a Action) whoText() string {
	first := a.Whom[0]
	text := first.Who()
	switch {
	case first.Prepared():
		text += a.forText(", ", " old")
	case first.State != "" && first.Process == "": // a Locker's session is idle while its locks are held
		text += ", " + first.State + a.forText(" for ", "")
	}
	if a.lock != "" {
		text += ", holds " + a.heldText()
	}
	return text + a.elsewhere(first)
}

// elsewhere names the database of a session, if it is not the connected one, and the lock's name does not say it.
func (a Action) elsewhere(n *Node) string {
	where := " in database " + n.Database
	if n.Database == "" || n.Database == a.database || strings.HasSuffix(a.lock, where) {
		return ""
	}
	return where
}

func (a Action) heldText() string {
	lock, isRow := strings.CutSuffix(a.lock, inRow)
	if a.mode != "" {
		lock += fmt.Sprintf(" (%s)", display.Mode(a.mode))
	}
	if isRow {
		lock += " in a row"
	}
	return lock
}

func (a Action) forText(before, after string) string {
	if a.since == nil {
		return ""
	}
	return before + display.Age(a.at.Sub(*a.since)) + after
}

func (a Action) helplessText() string {
	text := plural(a.Waiting, "waiter", "waiters")
	if a.Longest > 0 {
		text += ", longest wait " + display.Age(a.Longest)
	}
	text += ", for " + a.oldest.Label()
	if len(a.Whom) > 0 {
		text += " behind " + a.Whom[0].Who()
	}
	return text + ": " + a.Why
}

func (a Action) elsewhereText() string {
	if a.Elsewhere == 0 {
		return ""
	}
	where := ""
	if a.filtered {
		where = " on the whole server"
	}
	return fmt.Sprintf("; %s without an advisory lock%s", plural(a.Elsewhere, "session waits", "sessions wait"), where)
}

func (a Action) quietText() string {
	text := "Nothing waits"
	if a.Expected > 0 {
		text = fmt.Sprintf("Nothing waits but %d for elections, permits and runs of jobs", a.Expected)
	}
	if a.hidden > 0 {
		text = fmt.Sprintf("Of what the filters show, n%s (%s not shown)", text[1:], plural(a.hidden, "wait is", "waits are"))
	}
	if a.Elsewhere > 0 || a.unread {
		text += " for an advisory lock" + a.elsewhereText()
	}
	kind := ""
	if a.unread {
		text, kind = text+"; locks in rows could not be read", "advisory "
	}
	switch {
	case a.more:
		return text + ". More locks are held than could be read."
	case a.Held == 0:
		return fmt.Sprintf("%s. No %slocks held.", text, kind)
	}
	return fmt.Sprintf("%s. %s held.", text, plural(a.Held, kind+"lock", kind+"locks"))
}

// targetsThatWait counts those that the signal is sent to and that wait themselves.
func (a Action) targetsThatWait() (n int) {
	for _, one := range a.Whom {
		if one.Wait != nil {
			n++
		}
	}
	return n
}

// Command returns what carries the action out: a command for a shell with these flags, which have a space before them or are
// empty, or for a prepared transaction a statement of SQL. There is one for each of Whom. It is empty if there is no signal, and
// if the role may not send it.
func (a Action) Command(flags string) string {
	if a.Signal == "" || a.Why != "" {
		return ""
	}
	var all []string
	for i, n := range a.Whom {
		command := fmt.Sprintf("pglock %s%s %s", a.Signal, flags, a.refs[i])
		switch {
		case n.Lease != nil:
			command = fmt.Sprintf("pglock %s%s --holder %s", a.Signal, flags, a.refs[i])
		case n.Prepared():
			if command = n.RollbackSQL(); n.Database != "" {
				command += "; -- in database " + n.Database
			}
		}
		all = append(all, command)
	}
	return strings.Join(all, "; ")
}

// MarshalJSON returns the action as what to do, to whom, what that frees and the command, without flags.
func (a Action) MarshalJSON() ([]byte, error) {
	type target struct {
		Who string `json:"who"`
		SessionID
		Ref string `json:"ref"`
	}
	whom := []target{}
	for i, n := range a.Whom {
		whom = append(whom, target{Who: n.Who(), SessionID: n.ID()})
		if i < len(a.refs) {
			whom[i].Ref = a.refs[i]
		}
	}
	return json.Marshal(struct {
		What    string   `json:"what"`
		Whom    []target `json:"whom"`
		Why     string   `json:"why"`
		Frees   int      `json:"frees"`
		Then    int      `json:"then"`
		AtMost  int      `json:"at_most"`
		Command string   `json:"command"`
		Other   *Action  `json:"other"`
	}{a.Signal, whom, a.Why, a.Frees, a.Then, a.AtMost, a.Command(""), a.Other})
}

// Who names a node in a few words: process ID and application of a session, without the mark of a pglock process, or what kind
// of process it is; a prepared transaction; the application, process ID and host of a process.
func (n *Node) Who() string {
	application, _ := appname.Split(n.Application)
	switch {
	case n.Lease != nil:
		text := cmp.Or(application, n.Lease.Holder)
		if n.Lease.Host != "" {
			text += fmt.Sprintf(" (process %d on %s)", n.Lease.PID, n.Lease.Host)
		}
		return text
	case n.Prepared() && n.GID == "":
		return "a prepared transaction"
	case n.Prepared():
		return fmt.Sprintf("prepared transaction %q", n.GID)
	}
	return strings.TrimSpace(fmt.Sprintf("%d %s", n.PID, application))
}

func lowerFirst(text string) string { return strings.ToLower(text[:1]) + text[1:] }
