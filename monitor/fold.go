package monitor

import (
	"iter"
	"slices"
	"time"
)

// FoldAbove is how many siblings of a [Tree] that are alike are drawn one by one. More of them are drawn as one [Branch].
const FoldAbove = 5

// Branch is what a face draws as one row of a tree: a node, which can have others below it, or a fold of more than
// [FoldAbove] siblings that are alike: they wait for the same lock in the same mode, and none of them is part of a deadlock
// or has others below it.
type Branch struct {
	// Nodes are the node, or those of the fold, the longest wait first.
	Nodes []*Node
}

// Folded reports whether the branch is a fold.
func (b Branch) Folded() bool { return len(b.Nodes) > 1 }

// First returns the node or, of a fold, the one that has waited longest. [Node.Wait] of it says for what all of them wait.
func (b Branch) First() *Node { return b.Nodes[0] }

// Last returns the node or, of a fold, the one that has waited for the shortest time.
func (b Branch) Last() *Node { return b.Nodes[len(b.Nodes)-1] }

// Waited returns the shortest and the longest wait of the branch at a time, usually that of the snapshot. It is false if
// none of its waits has a known time; a wait that has only just begun has none, and is left out.
func (b Branch) Waited(at time.Time) (shortest, longest time.Duration, ok bool) {
	for _, n := range b.Nodes {
		if n.Wait == nil || n.Wait.WaitingSince == nil {
			continue
		}
		waited := n.Wait.waited(at)
		if !ok {
			shortest, ok = waited, true
		}
		shortest, longest = min(shortest, waited), max(longest, waited)
	}
	return shortest, longest, ok
}

// Fold returns siblings, such as the roots of a tree or the children of a node, as the branches to draw. A fold stands
// where the first of its nodes stood; all else keeps its order.
func Fold(siblings []*Node) []Branch {
	var alike [][]*Node // of those that can be folded
	at := make([]int, len(siblings))
	for i, n := range siblings {
		at[i] = -1
		if !n.foldable() {
			continue
		}
		at[i] = slices.IndexFunc(alike, func(others []*Node) bool { return others[0].alike(n) })
		if at[i] < 0 {
			at[i], alike = len(alike), append(alike, nil)
		}
		alike[at[i]] = append(alike[at[i]], n)
	}
	branches := make([]Branch, 0, len(siblings))
	for i, n := range siblings {
		switch {
		case at[i] < 0 || len(alike[at[i]]) <= FoldAbove:
			branches = append(branches, Branch{[]*Node{n}})
		case alike[at[i]][0] == n:
			branches = append(branches, Branch{alike[at[i]]})
		}
	}
	return branches
}

func (n *Node) foldable() bool {
	return n.Wait != nil && len(n.Children) == 0 && !n.Deadlock && !n.ClosesCycle
}

// alike reports whether two waiting siblings wait for the same lock in the same way.
func (n *Node) alike(other *Node) bool {
	return n.Wait.Mode == other.Wait.Mode && n.Kind == other.Kind && n.Wait.sameLock(*other.Wait)
}

// Branches returns an iterator over what a face draws, from top to bottom, with the depth of each row.
func (t *Tree) Branches() iter.Seq2[int, Branch] {
	type place struct {
		branch Branch
		depth  int
	}
	return func(yield func(int, Branch) bool) {
		var todo []place // not recursive, since chains can be long
		push := func(siblings []*Node, depth int) {
			for _, b := range slices.Backward(Fold(siblings)) {
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
