package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/monitor"
)

// remedy says why a session waits, and what to do. If a holder itself waits for a lock of any type, the session to end is
// the one at the root, not the holder.
func (f facts) remedy(w monitor.Waiter) (why, do string) {
	s := f.snapshot
	tree := s.Tree()
	indirect, found := roots(tree, w)
	if len(found) == 0 && indirect {
		return "it is part of a deadlock, or behind one", "end the deadlock first"
	}
	idle := atRoot(s, found, func(session monitor.Session) bool {
		return strings.HasPrefix(session.State, "idle in transaction")
	})
	if !indirect {
		if idle == "" {
			return "the holder may be stuck",
				"see what the holder does (pglock monitor), and end it if it is stuck: " + f.terminations(found)
		}
		return idle, "find out what its client waits for, or end it: " + f.terminations(found)
	}
	root := atRoot(s, found, func(monitor.Session) bool { return true })
	return strings.Join(holdersWaits(tree, w), "; ") + "; at the root: " + root,
		"find out what the session at the root does, or end it: " + f.terminations(found)
}

// roots follows the wait graph from a waiter to the sessions that block without waiting. indirect reports whether there
// are waiting sessions in between. A deadlock has no roots.
func roots(tree *monitor.Tree, w monitor.Waiter) (indirect bool, found []monitor.SessionID) {
	seen := map[monitor.SessionID]bool{}
	todo := hard(w)
	for len(todo) > 0 {
		id := todo[0]
		todo = todo[1:]
		if seen[id] {
			continue
		}
		seen[id] = true
		next := tree.Node(id)
		if next.Wait == nil {
			found = append(found, id)
			continue
		}
		indirect = true
		todo = append(todo, hard(*next.Wait.Waiter)...)
	}
	slices.SortFunc(found, monitor.SessionID.Compare)
	return indirect, found
}

// hard returns the sessions that hold what w waits for.
func hard(w monitor.Waiter) (all []monitor.SessionID) {
	for _, blocker := range w.BlockedBy {
		if blocker.Kind == monitor.BlockHard {
			all = append(all, blocker.ID())
		}
	}
	return all
}

// holdersWaits describes the waits of the holders of w's lock.
func holdersWaits(tree *monitor.Tree, w monitor.Waiter) (all []string) {
	for _, id := range hard(w) {
		if n := tree.Node(id); n.Wait != nil {
			all = append(all, fmt.Sprintf("%d itself waits for %s", id.PID, n.Wait.Label()))
		}
	}
	return all
}

// atRoot names the sessions at the root, with their states.
func atRoot(s *monitor.Snapshot, found []monitor.SessionID, named func(monitor.Session) bool) string {
	var texts []string
	for session := range s.Sessions() {
		if !slices.Contains(found, session.ID()) || !named(session) {
			continue
		}
		text := who(session)
		if session.State != "" {
			text += fmt.Sprintf(" is %s%s", session.State, age(s, session.StateSince))
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "; ")
}

// terminations returns the commands that terminate sessions.
func (f facts) terminations(ids []monitor.SessionID) string {
	var all []string
	for _, id := range ids {
		all = append(all, f.terminate(id))
	}
	return strings.Join(all, ", ")
}

// terminate returns the command that ends a session of the server.
func (f facts) terminate(id monitor.SessionID) string {
	if id.PID == 0 {
		return fmt.Sprintf("roll back prepared transaction %q", id.GID)
	}
	return f.signal(monitor.SignalTerminate, id.PID)
}

// signal returns the command that signals a session of the snapshot, and no later session with its process ID.
func (f facts) signal(signal monitor.Signal, pid int32) string {
	target, err := monitor.Inspect(f.snapshot, pid)
	if err != nil {
		return fmt.Sprintf("pglock %s%s %d", signal, f.server, pid)
	}
	return view.EndSession(signal, target.Ref, f.server)
}
