package tui

import (
	"slices"

	"github.com/pglock-toolkit/pglock/monitor"
)

// blockingTree is one of the blocking trees of a server.
type blockingTree struct {
	root   *monitor.Node
	list   sessionList
	server int
}

// chosenTrees returns whole trees, since a matching session makes no sense without those that block it.
func (p *source) chosenTrees(match matcher) (trees []blockingTree) {
	list := newSessionList(p.snapshot, p.tree, match.allowed)
	for _, root := range list.tree.Roots {
		if t := (blockingTree{root, list, p.server}); match.filter == nil || t.matches(root, match) {
			trees = append(trees, t)
		}
	}
	return trees
}

func (t blockingTree) matches(n *monitor.Node, match matcher) bool {
	p := t.list.byID[n.ID()]
	if lock := p.shownLock(); match.matchesSession(n.Session) || lock != nil && match.matchesKey(lock) || match.matchesOther(p) {
		return true
	}
	return slices.ContainsFunc(n.Children, func(child *monitor.Node) bool { return t.matches(child, match) })
}

// flatten returns the rows of trees. The root of a cycle is repeated where the cycle closes.
func flatten(trees []blockingTree) (rows []row) {
	var add func(t blockingTree, n *monitor.Node, guide, below string)
	add = func(t blockingTree, n *monitor.Node, guide, below string) {
		rows = append(rows, t.row(n, guide))
		closes := n == t.root.Blocker
		for i, child := range n.Children {
			if i < len(n.Children)-1 || closes {
				add(t, child, below+"├─ ", below+"│  ")
			} else {
				add(t, child, below+"└─ ", below+"   ")
			}
		}
		if closes {
			again := t.row(t.root, below+"└─ ")
			again.id.repeated, again.behind, again.longest = true, 0, -1
			rows = append(rows, again)
		}
	}
	for _, tree := range trees {
		add(tree, tree.root, "", "")
	}
	return rows
}

func (t blockingTree) row(n *monitor.Node, guide string) row {
	p := t.list.byID[n.ID()]
	return row{
		id:      rowID{server: t.server, session: n.ID()},
		certain: n.Certain,
		lock:    p.shownLock(),
		session: p,
		longest: n.Longest,
		behind:  n.Behind,
		guide:   guide,
	}
}

// shownLock returns the lock that the session waits for, or else the first lock that others wait for.
func (p *sessionInfo) shownLock() *monitor.Lock {
	if lock := p.lock(); lock != nil {
		return lock
	}
	i := slices.IndexFunc(p.held, func(lock *monitor.Lock) bool { return len(lock.Waiters) > 0 })
	if i < 0 {
		return nil
	}
	return p.held[i]
}
