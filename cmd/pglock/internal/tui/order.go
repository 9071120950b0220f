package tui

import (
	"cmp"
	"slices"
)

// sortKeys sorts keys by the longest wait.
func sortKeys(rows []row) {
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(b.longest, a.longest) })
}

// sortTrees sorts trees by how many sessions are behind their roots. Those in a certain deadlock come first, and those for
// which others wait only as they do in normal work, such as for a leader, last.
func sortTrees(trees []blockingTree) {
	weight := func(t blockingTree) int {
		r := t.row(t.root, "")
		switch {
		case r.certain:
			return 1<<32 + r.behind
		case r.session.wait() == nil && !r.isRoot():
			return r.behind - 1<<32
		}
		return r.behind
	}
	slices.SortStableFunc(trees, func(a, b blockingTree) int { return cmp.Compare(weight(b), weight(a)) })
}
