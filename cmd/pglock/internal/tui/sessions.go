package tui

import (
	"iter"
	"slices"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/monitor"
)

// sessionInfo is a session or prepared transaction with its advisory locks, or a process with its locks in rows.
type sessionInfo struct {
	*monitor.Session
	// process is nil for a session. Otherwise Session has what a process has in common with one.
	process *monitor.RowProcess
	node    *monitor.Node // nil if it neither waits nor blocks others
	held    []keyInfo
}

// ID identifies the session or process within its snapshot.
func (p *sessionInfo) ID() monitor.SessionID {
	if p.process != nil {
		return monitor.SessionID{Holder: p.process.Holder}
	}
	return p.Session.ID()
}

// Prepared reports whether this is a prepared transaction.
func (p *sessionInfo) Prepared() bool { return p.process == nil && p.Session.Prepared() }

// who names it in a word.
func (p *sessionInfo) who() string {
	if p.process != nil {
		return view.Printable(p.process.Holder)
	}
	return view.Who(*p.Session)
}

// label names it in a few words.
func (p *sessionInfo) label() string {
	if p.process != nil {
		return processLabel(p.process)
	}
	return sessionLabel(p.Session)
}

// nodeLabel names a session or process of a tree, as label does.
func nodeLabel(n *monitor.Node) string {
	if n.Process != nil {
		return processLabel(n.Process)
	}
	return sessionLabel(n.Session)
}

// wait returns the wait that is shown, or nil.
func (p *sessionInfo) wait() *monitor.Wait {
	if p.node == nil {
		return nil
	}
	return p.node.Wait
}

// waitsFor returns the advisory lock or lock in a row that is waited for, or none.
func (p *sessionInfo) waitsFor() keyInfo {
	if wait := p.wait(); wait != nil {
		return keyInfo{lock: wait.Lock, inRow: wait.Row}
	}
	return keyInfo{}
}

// otherLock returns the lock of another type that the session waits for, or nil.
func (p *sessionInfo) otherLock() *monitor.OtherLock {
	if wait := p.wait(); wait != nil {
		return wait.Other
	}
	return nil
}

// shownKey returns the lock that is waited for, or else the first lock that others wait for.
func (p *sessionInfo) shownKey() keyInfo {
	if k := p.waitsFor(); !k.none() {
		return k
	}
	i := slices.IndexFunc(p.held, func(k keyInfo) bool { return k.waiterCount() > 0 })
	if i < 0 {
		return keyInfo{}
	}
	return p.held[i]
}

// addHeld adds a lock, once if it is held in two modes.
func (p *sessionInfo) addHeld(k keyInfo) {
	if n := len(p.held); n == 0 || p.held[n-1] != k {
		p.held = append(p.held, k)
	}
}

// sessionList has the holders and waiters of the shown locks and the sessions of the trees, in the order in which they
// appear there.
type sessionList struct {
	all   []*sessionInfo
	byID  map[monitor.SessionID]*sessionInfo
	trees []*monitor.Tree // of sessions, and of processes
}

func newSessionList(s *monitor.Snapshot, tree *monitor.Tree, match matcher) sessionList {
	shown := *s
	shown.RowLocks = slices.DeleteFunc(slices.Clone(s.RowLocks), func(l monitor.RowLock) bool { return !match.allowed(keyInfo{inRow: &l}) })
	sessions := tree
	if match.narrows() {
		sessions = tree.Of(func(l *monitor.Lock) bool { return match.allowed(keyInfo{lock: l}) }, match.only.ShowsOther)
	}
	list := sessionList{byID: map[monitor.SessionID]*sessionInfo{}, trees: []*monitor.Tree{sessions, shown.RowTree()}}
	for i := range s.Locks {
		k := keyInfo{lock: &s.Locks[i]}
		if !match.allowed(k) {
			continue
		}
		for j := range k.lock.Holders {
			list.add(&k.lock.Holders[j].Session).addHeld(k)
		}
		for j := range k.lock.Waiters {
			list.add(&k.lock.Waiters[j].Session)
		}
	}
	for _, n := range sessions.All() {
		list.add(n.Session)
	}
	list.addProcesses(&shown)
	return list
}

func (l *sessionList) add(session *monitor.Session) *sessionInfo {
	return l.addInfo(&sessionInfo{Session: session}, l.trees[0])
}

// addProcesses adds the processes of a snapshot's locks in rows.
func (l *sessionList) addProcesses(s *monitor.Snapshot) {
	add := func(p *monitor.RowProcess) *sessionInfo {
		return l.addInfo(&sessionInfo{Session: sessionOf(s, p), process: p}, l.trees[1])
	}
	for i := range s.RowLocks {
		lock := &s.RowLocks[i]
		for j := range lock.Holders {
			add(&lock.Holders[j].RowProcess).addHeld(keyInfo{inRow: lock})
		}
		for j := range lock.Waiters {
			add(&lock.Waiters[j].RowProcess)
		}
	}
}

// addInfo adds a session or process unless it is there, and returns the one that is.
func (l *sessionList) addInfo(p *sessionInfo, tree *monitor.Tree) *sessionInfo {
	id := p.ID()
	if known := l.byID[id]; known != nil {
		return known
	}
	p.node = tree.Node(id)
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

func waitLabel(wait monitor.Wait) string {
	if wait.Row != nil {
		return keyInfo{inRow: wait.Row}.keyLabel()
	}
	return view.Printable(wait.Label())
}
