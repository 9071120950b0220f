package tui

import (
	"slices"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/fold"
	"github.com/pglock-toolkit/pglock/monitor"
)

// blockingTree is one of the blocking trees.
type blockingTree struct {
	root  *monitor.Node
	fold  []*monitor.Node // of roots that are alike, of which root is the first; nil for one root
	list  sessionList
	match matcher
}

// chosenTrees returns whole trees, since a matching session makes no sense without those that block it.
func (t *tableData) chosenTrees(match matcher) (trees []blockingTree) {
	list := newSessionList(t.snapshot, t.tree, match)
	for _, b := range fold.Of(list.tree.Roots) { // some roots wait: it is unknown for whom
		if b.Folded() && match.filter == nil {
			trees = append(trees, blockingTree{b.First(), b.Nodes, list, match})
			continue
		}
		for _, root := range b.Nodes {
			if t := (blockingTree{root, nil, list, match}); match.filter == nil || t.matches(root) {
				trees = append(trees, t)
			}
		}
	}
	return trees
}

func (t blockingTree) nodes() []*monitor.Node {
	if t.fold != nil {
		return t.fold
	}
	return []*monitor.Node{t.root}
}

func (t blockingTree) matches(n *monitor.Node) bool {
	return t.match.matchesAny(t.list.byID[n.ID()]) || slices.ContainsFunc(n.Children, t.matches)
}

// flatten returns the rows of trees.
func flatten(q tableQuery, trees []blockingTree) (rows []row) {
	for _, t := range trees {
		f := flattener{blockingTree: t, tableQuery: q}
		for _, b := range f.branches(t.nodes()) {
			f.addBranch(b, "", "")
		}
		rows = append(rows, f.rows...)
	}
	return rows
}

// flattener makes rows of a tree.
type flattener struct {
	blockingTree
	tableQuery
	rows []row
}

// add adds the rows of a node and those below it. The root of a cycle is repeated where the cycle closes.
func (f *flattener) add(n *monitor.Node, guide, below string, within *rowID) {
	r := f.row(n, guide)
	r.within = within
	if len(n.Children) > 0 && !f.flat && f.toggled[r.id] {
		r.hidden = n.Behind
		f.rows = append(f.rows, r)
		return
	}
	f.rows = append(f.rows, r)
	closes := n == f.root.Blocker
	branches := f.branches(n.Children)
	for i, b := range branches {
		branch, under := "├─ ", "│  "
		if i == len(branches)-1 && !closes {
			branch, under = "└─ ", "   "
		}
		f.addBranch(b, below+branch, below+under)
	}
	if closes {
		again := f.row(f.root, below+"└─ ")
		again.id.repeated, again.behind, again.longest = true, 0, -1
		f.rows = append(f.rows, again)
	}
}

func (f *flattener) addBranch(b branch, guide, below string) {
	if b.row.fold == nil {
		f.add(b.node, guide, below, b.within)
		return
	}
	b.row.guide = guide
	f.rows = append(f.rows, b.row)
}

// branch is a node, or the row of a fold.
type branch struct {
	node   *monitor.Node
	within *rowID // the fold that the user has unfolded
	row    row
}

// branches returns siblings as they are drawn: those that are alike in one row, unless the user wants to see them or the
// filter matches some of them.
func (f *flattener) branches(siblings []*monitor.Node) (all []branch) {
	for _, b := range fold.Of(siblings) {
		var id rowID
		if b.Folded() {
			id.fold = foldOf(b.First())
		}
		switch {
		case !b.Folded() || f.flat:
			all = append(all, single(b.Nodes, nil)...)
		case f.toggled[id]:
			all = append(all, single(b.Nodes, &id)...)
		default:
			found, rest := f.matching(b.Nodes)
			all = append(all, single(found, nil)...)
			if len(rest) > 1 {
				all = append(all, branch{row: f.foldRow(id, rest)})
			} else {
				all = append(all, single(rest, nil)...)
			}
		}
	}
	return all
}

func single(nodes []*monitor.Node, within *rowID) (all []branch) {
	for _, n := range nodes {
		all = append(all, branch{node: n, within: within})
	}
	return all
}

// matching divides the nodes of a fold into those that the filter matches themselves and the others.
func (f *flattener) matching(nodes []*monitor.Node) (found, rest []*monitor.Node) {
	if f.match.filter == nil {
		return nil, nodes
	}
	for _, n := range nodes {
		if f.match.matchesSession(n.Session) {
			found = append(found, n)
		} else {
			rest = append(rest, n)
		}
	}
	return found, rest
}

// foldRow returns the row that stands for waiters that are alike.
func (f *flattener) foldRow(id rowID, nodes []*monitor.Node) row {
	r := f.row(nodes[0], "")
	r.id, r.fold, r.behind = id, nodes, 0
	return r
}

func (t blockingTree) row(n *monitor.Node, guide string) row {
	p := t.list.byID[n.ID()]
	return row{
		id:      rowID{session: n.ID()},
		certain: n.Certain,
		lock:    p.shownLock(),
		session: p,
		longest: n.Longest,
		behind:  n.Behind,
		guide:   guide,
	}
}
