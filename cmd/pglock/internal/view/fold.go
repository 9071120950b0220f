package view

import (
	"fmt"
	"time"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/fold"
	"github.com/pglock-toolkit/pglock/monitor"
)

// FoldText describes the nodes of a fold but the first, which has a row of its own: "… 199 more, 4712 shop to 4990 shop,
// waited 12s to 13s".
func FoldText(b fold.Branch, at time.Time) string {
	rest := fold.Branch{Nodes: b.Nodes[1:]}
	text := fmt.Sprintf("… %d more, %s to %s", len(rest.Nodes), Printable(rest.First().Who()), Printable(rest.Last().Who()))
	shortest, longest, known := rest.Waited(at)
	switch {
	case !known:
		return text
	case Age(shortest) == Age(longest):
		return text + ", waited " + Age(longest)
	}
	return fmt.Sprintf("%s, waited %s to %s", text, Age(shortest), Age(longest))
}

// folds are the folds of a tree, by each of their nodes.
type folds map[monitor.SessionID]fold.Branch

func foldsOf(t *monitor.Tree) folds {
	found := folds{}
	for _, b := range fold.Branches(t) {
		if b.Folded() {
			for _, n := range b.Nodes {
				found[n.ID()] = b
			}
		}
	}
	return found
}

// of returns the text below the row of a waiter that is the first of its fold. hidden says that the waiter is another one of
// a fold, and has no row.
func (f folds) of(id monitor.SessionID, label string, at time.Time) (below string, hidden bool) {
	b, folded := f[id]
	switch {
	case !folded || b.First().Wait.Label() != label:
		return "", false
	case b.First().ID() == id:
		return FoldText(b, at), false
	}
	return "", true
}
