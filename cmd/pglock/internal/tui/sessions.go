package tui

import (
	"iter"
	"slices"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/monitor"
)

// sessionInfo is a session, prepared transaction or process with its locks.
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

// waitsFor returns the advisory lock or lock in a row that is waited for, or nil.
func (p *sessionInfo) waitsFor() *monitor.Lock {
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

// shownLock returns the lock that is waited for, or else the first lock that others wait for.
func (p *sessionInfo) shownLock() *monitor.Lock {
	if lock := p.waitsFor(); lock != nil {
		return lock
	}
	i := slices.IndexFunc(p.held, func(lock *monitor.Lock) bool { return len(lock.Waiters) > 0 })
	if i < 0 {
		return nil
	}
	return p.held[i]
}

// sessionList has the holders and waiters of the shown locks and the sessions of the tree, in the order in which they
// appear there.
type sessionList struct {
	all  []*sessionInfo
	byID map[monitor.SessionID]*sessionInfo
	tree *monitor.Tree
}

func newSessionList(s *monitor.Snapshot, tree *monitor.Tree, match matcher) sessionList {
	list := sessionList{byID: map[monitor.SessionID]*sessionInfo{}, tree: tree}
	for i := range s.Locks {
		lock := &s.Locks[i]
		if !match.allowed(lock) {
			continue
		}
		for j := range lock.Holders {
			p := list.add(&lock.Holders[j].Session)
			if n := len(p.held); n == 0 || p.held[n-1] != lock { // once if it is held in two modes
				p.held = append(p.held, lock)
			}
		}
		for j := range lock.Waiters {
			list.add(&lock.Waiters[j].Session)
		}
	}
	for _, n := range tree.All() {
		list.add(n.Session)
	}
	return list
}

// add adds a session unless it is there, and returns the one that is.
func (l *sessionList) add(session *monitor.Session) *sessionInfo {
	id := session.ID()
	if known := l.byID[id]; known != nil {
		return known
	}
	p := &sessionInfo{Session: session, node: l.tree.Node(id)}
	l.byID[id], l.all = p, append(l.all, p)
	return p
}

// findSession returns one session or process with its locks, or nil if it is not in the snapshot.
func findSession(s *monitor.Snapshot, id monitor.SessionID) *sessionInfo {
	return newSessionList(s, s.Tree(), newMatcher(tableQuery{}, s)).byID[id]
}

// waitsBehind returns an iterator over the waits that a session or process blocks directly.
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
