// Package fold draws siblings of a tree of waits that are alike as one row.
package fold

import (
	"iter"
	"slices"
	"time"

	"github.com/pglock-toolkit/pglock/monitor"
)

// Above is how many siblings of a [monitor.Tree] that are alike are drawn one by one. More of them are drawn as one [Branch].
const Above = 5

// Branch is what a face draws as one row of a tree: a node, which can have others below it, or a fold of more than
// [Above] siblings that are alike: they wait for the same lock in the same mode, and none of them is part of a deadlock
// or has others below it.
type Branch struct {
	// Nodes are the node, or those of the fold, the longest wait first.
	Nodes []*monitor.Node
}

// Folded reports whether the branch is a fold.
func (b Branch) Folded() bool { return len(b.Nodes) > 1 }

// First returns the node or, of a fold, the one that has waited longest. [monitor.Node.Wait] of it says for what all of them wait.
func (b Branch) First() *monitor.Node { return b.Nodes[0] }

// Last returns the node or, of a fold, the one that has waited for the shortest time.
func (b Branch) Last() *monitor.Node { return b.Nodes[len(b.Nodes)-1] }

// Waited returns the shortest and the longest wait of the branch at a time, usually that of the snapshot. It is false if
// none of its waits has a known time; a wait that has only just begun has none, and is left out.
func (b Branch) Waited(at time.Time) (shortest, longest time.Duration, ok bool) {
	for _, n := range b.Nodes {
		if n.Wait == nil || n.Wait.WaitingSince == nil {
			continue
		}
		waited := max(0, at.Sub(*n.Wait.WaitingSince))
		if !ok {
			shortest, ok = waited, true
		}
		shortest, longest = min(shortest, waited), max(longest, waited)
	}
	return shortest, longest, ok
}

// Of returns siblings, such as the roots of a tree or the children of a node, as the branches to draw. A fold stands
// where the first of its nodes stood; all else keeps its order.
func Of(siblings []*monitor.Node) []Branch {
	var groups [][]*monitor.Node // of those that can be folded
	at := make([]int, len(siblings))
	for i, n := range siblings {
		at[i] = -1
		if !foldable(n) {
			continue
		}
		at[i] = slices.IndexFunc(groups, func(others []*monitor.Node) bool { return alike(others[0], n) })
		if at[i] < 0 {
			at[i], groups = len(groups), append(groups, nil)
		}
		groups[at[i]] = append(groups[at[i]], n)
	}
	branches := make([]Branch, 0, len(siblings))
	for i, n := range siblings {
		switch {
		case at[i] < 0 || len(groups[at[i]]) <= Above:
			branches = append(branches, Branch{[]*monitor.Node{n}})
		case groups[at[i]][0] == n:
			branches = append(branches, Branch{groups[at[i]]})
		}
	}
	return branches
}

func foldable(n *monitor.Node) bool {
	return n.Wait != nil && len(n.Children) == 0 && !n.Deadlock && !n.ClosesCycle
}

// alike reports whether two waiting siblings wait for the same lock in the same way.
func alike(a, b *monitor.Node) bool {
	if a.Wait.Mode != b.Wait.Mode || a.Kind != b.Kind || a.Wait.Lock != b.Wait.Lock {
		return false
	}
	return a.Wait.Lock != nil || *a.Wait.Other == *b.Wait.Other
}

// Branches returns an iterator over what a face draws, from top to bottom, with the depth of each row.
func Branches(t *monitor.Tree) iter.Seq2[int, Branch] {
	type place struct {
		branch Branch
		depth  int
	}
	return func(yield func(int, Branch) bool) {
		var todo []place // not recursive, since chains can be long
		push := func(siblings []*monitor.Node, depth int) {
			for _, b := range slices.Backward(Of(siblings)) {
				todo = append(todo, place{b, depth})
			}
		}
		for push(t.Roots, 0); len(todo) > 0; {
			at := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			if !yield(at.depth, at.branch) {
				return
			}
			if !at.branch.Folded() {
				push(at.branch.First().Children, at.depth+1)
			}
		}
	}
}
