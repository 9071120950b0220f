package tui

import (
	"iter"
	"slices"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/monitor"
)

// sessionInfo is a session or prepared transaction with its advisory locks.
type sessionInfo struct {
	*monitor.Session
	node *monitor.Node // nil if it neither waits nor blocks others
	held []*monitor.Lock
}

// wait returns the wait that is shown, or nil.
func (p *sessionInfo) wait() *monitor.Wait {
	if p.node == nil {
		return nil
	}
	return p.node.Wait
}

// lock returns the advisory lock that the session waits for, or nil.
func (p *sessionInfo) lock() *monitor.Lock {
	if wait := p.wait(); wait != nil {
		return wait.Lock
	}
	return nil
}

// otherLock returns the lock of another type that the session waits for, or nil.
func (p *sessionInfo) otherLock() *monitor.OtherLock {
	if wait := p.wait(); wait != nil {
		return wait.Other
	}
	return nil
}

// addHeld adds a lock, once if the session holds it in two modes.
func (p *sessionInfo) addHeld(lock *monitor.Lock) {
	if n := len(p.held); n == 0 || p.held[n-1] != lock {
		p.held = append(p.held, lock)
	}
}

// sessionList has the holders and waiters of the shown locks and the sessions of the tree, in the order in which they
// appear there.
type sessionList struct {
	all  []*sessionInfo
	byID map[monitor.SessionID]*sessionInfo
	tree *monitor.Tree
}

func newSessionList(s *monitor.Snapshot, tree *monitor.Tree, shows func(*monitor.Lock) bool) sessionList {
	list := sessionList{byID: map[monitor.SessionID]*sessionInfo{}, tree: tree.Of(shows)}
	for i := range s.Locks {
		lock := &s.Locks[i]
		if !shows(lock) {
			continue
		}
		for j := range lock.Holders {
			list.add(&lock.Holders[j].Session).addHeld(lock)
		}
		for j := range lock.Waiters {
			list.add(&lock.Waiters[j].Session)
		}
	}
	for _, n := range list.tree.All() {
		list.add(n.Session)
	}
	return list
}

func (l *sessionList) add(session *monitor.Session) *sessionInfo {
	id := session.ID()
	p := l.byID[id]
	if p == nil {
		p = &sessionInfo{Session: session, node: l.tree.Node(id)}
		l.byID[id], l.all = p, append(l.all, p)
	}
	return p
}

// findSession returns one session with its locks, or nil if it is not in the snapshot.
func findSession(s *monitor.Snapshot, tree *monitor.Tree, id monitor.SessionID) *sessionInfo {
	for session := range s.Sessions() {
		if session.ID() != id {
			continue
		}
		p := &sessionInfo{Session: &session, node: tree.Node(id)}
		for i := range s.Locks {
			if slices.ContainsFunc(s.Locks[i].Holders, func(h monitor.Holder) bool { return h.ID() == id }) {
				p.addHeld(&s.Locks[i])
			}
		}
		return p
	}
	return nil
}

// waitsBehind returns an iterator over the waits that a session blocks directly.
func waitsBehind(s *monitor.Snapshot, id monitor.SessionID) iter.Seq[monitor.Wait] {
	return func(yield func(monitor.Wait) bool) {
		for wait := range s.Waits() {
			if slices.ContainsFunc(wait.BlockedBy, func(b monitor.Blocker) bool { return b.ID() == id }) && !yield(wait) {
				return
			}
		}
	}
}

func waitLabel(wait monitor.Wait) string { return view.Printable(wait.Label()) }
