package tui

import (
	"cmp"
	"slices"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/monitor"
)

// sessionNode is a session or prepared transaction with its advisory locks and waits.
type sessionNode struct {
	*monitor.Session
	held []*monitor.Lock
	// lock is the advisory lock that it waits for, and otherLock a lock of another type. At most one is set. waiter says
	// how it waits; it is nil if the session does not wait.
	lock      *monitor.Lock
	otherLock *monitor.OtherLock
	waiter    *monitor.Waiter
	// blocks are the sessions that it blocks directly.
	blocks []*sessionNode
}

// sessionGraph has the sessions of a snapshot, in the order in which they appear there.
type sessionGraph struct {
	all  []*sessionNode
	byID map[monitor.SessionID]*sessionNode
}

// newSessionGraph returns the holders and waiters of the shown locks, and the sessions connected with them.
func newSessionGraph(s *monitor.Snapshot, shows func(*monitor.Lock) bool) sessionGraph {
	graph := sessionGraph{byID: map[monitor.SessionID]*sessionNode{}}
	for i := range s.Locks {
		lock := &s.Locks[i]
		if !shows(lock) {
			continue
		}
		for j := range lock.Holders {
			graph.node(&lock.Holders[j].Session).addHeld(lock)
		}
		for j := range lock.Waiters {
			graph.node(&lock.Waiters[j].Session).setWait(lock, &lock.Waiters[j])
		}
	}
	graph.addOtherWaits(s)
	graph.linkBlockers(s)
	return graph
}

func (g *sessionGraph) node(session *monitor.Session) *sessionNode {
	id := session.ID()
	node := g.byID[id]
	if node == nil {
		node = &sessionNode{Session: session}
		g.byID[id], g.all = node, append(g.all, node)
	}
	return node
}

// addOtherWaits adds the waits for other locks that are connected with these sessions, directly or through others.
func (g *sessionGraph) addOtherWaits(s *monitor.Snapshot) {
	left := make([]*monitor.OtherWait, len(s.OtherWaits))
	for i := range s.OtherWaits {
		left[i] = &s.OtherWaits[i]
	}
	for known := -1; known != len(left); {
		known = len(left)
		left = slices.DeleteFunc(left, func(wait *monitor.OtherWait) bool {
			connected := g.byID[wait.Session.ID()] != nil || slices.ContainsFunc(wait.BlockedBy,
				func(b monitor.Blocker) bool { return g.byID[b.ID()] != nil })
			if connected {
				g.node(&wait.Session).setOtherWait(wait)
			}
			return connected
		})
	}
}

// linkBlockers fills in blocks. It also adds blockers that hold no shown advisory lock.
func (g *sessionGraph) linkBlockers(s *monitor.Snapshot) {
	sessions := map[monitor.SessionID]*monitor.Session{}
	for session := range s.Sessions() {
		sessions[session.ID()] = &session
	}
	for _, waiter := range g.all {
		if waiter.waiter == nil {
			continue
		}
		for _, blocker := range waiter.waiter.BlockedBy {
			session := sessions[blocker.ID()]
			if session == nil {
				session = &monitor.Session{PID: blocker.PID, GID: blocker.GID, Hidden: []string{"user"}}
			}
			node := g.node(session)
			node.blocks = append(node.blocks, waiter)
		}
	}
}

// primaryBlocker returns the session below which a waiter is shown: the first blocker that holds the lock, or else the
// first that is ahead in the queue.
func (g *sessionGraph) primaryBlocker(waiter *sessionNode) *sessionNode {
	if waiter.waiter == nil || len(waiter.waiter.BlockedBy) == 0 {
		return nil
	}
	first := waiter.waiter.BlockedBy[0]
	for _, blocker := range waiter.waiter.BlockedBy {
		if blocker.Kind == monitor.BlockHard {
			first = blocker
			break
		}
	}
	return g.byID[first.ID()]
}

func compareNodes(a, b *sessionNode) int {
	return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(a.GID, b.GID))
}

// findNode returns one session with its locks and waits, or nil if it is not in the snapshot.
func findNode(s *monitor.Snapshot, id monitor.SessionID) *sessionNode {
	var node *sessionNode
	get := func(session *monitor.Session) *sessionNode {
		if node == nil {
			node = &sessionNode{Session: session}
		}
		return node
	}
	var behind []*sessionNode
	for i := range s.Locks {
		lock := &s.Locks[i]
		for j := range lock.Holders {
			if session := &lock.Holders[j].Session; session.ID() == id {
				get(session).addHeld(lock)
			}
		}
		for j := range lock.Waiters {
			waiter := &lock.Waiters[j]
			if waiter.Session.ID() == id {
				get(&waiter.Session).setWait(lock, waiter)
			}
			if slices.ContainsFunc(waiter.BlockedBy, func(b monitor.Blocker) bool { return b.ID() == id }) {
				other := &sessionNode{Session: &waiter.Session}
				other.setWait(lock, waiter)
				behind = append(behind, other)
			}
		}
	}
	for i := range s.OtherSessions {
		if session := &s.OtherSessions[i]; session.ID() == id {
			get(session)
		}
	}
	for i := range s.OtherWaits {
		wait := &s.OtherWaits[i]
		if wait.Session.ID() == id {
			get(&wait.Session).setOtherWait(wait)
		}
		if slices.ContainsFunc(wait.BlockedBy, func(b monitor.Blocker) bool { return b.ID() == id }) {
			other := &sessionNode{Session: &wait.Session}
			other.setOtherWait(wait)
			behind = append(behind, other)
		}
	}
	if node != nil {
		node.blocks = behind
	}
	return node
}

// addHeld adds a lock, once if the session holds it in two modes.
func (p *sessionNode) addHeld(lock *monitor.Lock) {
	if n := len(p.held); n == 0 || p.held[n-1] != lock {
		p.held = append(p.held, lock)
	}
}

func (p *sessionNode) setWait(lock *monitor.Lock, waiter *monitor.Waiter) {
	p.lock, p.waiter = lock, waiter
}

// setOtherWait notes a wait for a lock of another type. With parallel workers a session can wait for several locks; the
// first is shown.
func (p *sessionNode) setOtherWait(wait *monitor.OtherWait) {
	if p.waiter == nil {
		p.otherLock, p.waiter = &wait.Lock, &wait.Waiter
	}
}

// waitsFor returns the label of the lock that the session waits for, or "" if it waits for none.
func (p *sessionNode) waitsFor() string {
	switch {
	case p.otherLock != nil:
		return view.Printable(p.otherLock.String())
	case p.lock != nil:
		return label(p.lock)
	}
	return ""
}
