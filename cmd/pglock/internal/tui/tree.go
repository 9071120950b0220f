package tui

import (
	"slices"
	"time"

	"github.com/pglock-toolkit/pglock/monitor"
)

// treeNode is a session in the blocking tree.
type treeNode struct {
	*sessionNode
	below []*treeNode
	// behind is how many sessions are blocked by this one, and longest the longest wait of this one and those below it.
	behind  int
	longest time.Duration
	// repeated reports that the session also stands above, which closes a cycle.
	repeated bool
	server   int
	certain  bool // it or one below it is part of a certain deadlock
}

// buildTrees returns the blocking trees. Each session appears once, below the one that it waits for, in queue order. A
// session that does not wait is a root. In a cycle the session with the smallest process ID is the root, and is
// repeated at the end.
func buildTrees(s *monitor.Snapshot, graph sessionGraph) []*treeNode {
	builder := treeBuilder{snapshot: s, behind: s.Behind(), below: map[*sessionNode][]*sessionNode{}, added: map[*sessionNode]bool{}}
	var roots []*sessionNode
	for _, p := range graph.all {
		switch blocker := graph.primaryBlocker(p); {
		case blocker != nil:
			builder.below[blocker] = append(builder.below[blocker], p)
		case p.waiter != nil || len(p.blocks) > 0:
			roots = append(roots, p)
		}
	}
	var trees []*treeNode
	for _, root := range roots {
		trees = append(trees, builder.add(root))
	}
	for _, p := range graph.all {
		if graph.primaryBlocker(p) != nil && !builder.added[p] {
			trees = append(trees, builder.add(firstOfCycle(graph, p)))
		}
	}
	return trees
}

// firstOfCycle follows the blockers of p to a cycle, and returns its session with the smallest process ID.
func firstOfCycle(graph sessionGraph, p *sessionNode) *sessionNode {
	seen := map[*sessionNode]bool{}
	for ; !seen[p]; p = graph.primaryBlocker(p) {
		seen[p] = true
	}
	first := p
	for next := graph.primaryBlocker(p); next != p; next = graph.primaryBlocker(next) {
		if compareNodes(next, first) < 0 {
			first = next
		}
	}
	return first
}

type treeBuilder struct {
	snapshot *monitor.Snapshot
	behind   map[monitor.SessionID]int
	below    map[*sessionNode][]*sessionNode
	added    map[*sessionNode]bool
}

func (t treeBuilder) add(p *sessionNode) *treeNode {
	if t.added[p] {
		return &treeNode{sessionNode: p, longest: -1, repeated: true}
	}
	t.added[p] = true
	b := &treeNode{sessionNode: p, longest: -1, behind: t.behind[p.ID()]}
	if p.waiter != nil {
		b.longest = waited(t.snapshot, p.waiter)
	}
	for _, next := range t.below[p] {
		child := t.add(next)
		b.below, b.longest = append(b.below, child), max(b.longest, child.longest)
	}
	return b
}

// flatten returns the rows of trees.
func flatten(trees []*treeNode) (rows []row) {
	var add func(b *treeNode, guide, below string)
	add = func(b *treeNode, guide, below string) {
		rows = append(rows, b.row(guide))
		for i, child := range b.below {
			if i < len(b.below)-1 {
				add(child, below+"├─ ", below+"│  ")
			} else {
				add(child, below+"└─ ", below+"   ")
			}
		}
	}
	for _, tree := range trees {
		add(tree, "", "")
	}
	return rows
}

func (b *treeNode) row(guide string) row {
	return row{
		id:      rowID{server: b.server, session: b.Session.ID(), repeated: b.repeated},
		certain: b.certain,
		lock:    b.shownLock(),
		node:    b.sessionNode,
		longest: b.longest,
		behind:  b.behind,
		guide:   guide,
	}
}

// shownLock returns the lock that the session waits for, or else the first lock that others wait for.
func (b *treeNode) shownLock() *monitor.Lock {
	if b.lock != nil {
		return b.lock
	}
	i := slices.IndexFunc(b.held, func(lock *monitor.Lock) bool { return len(lock.Waiters) > 0 })
	if i < 0 {
		return nil
	}
	return b.held[i]
}
