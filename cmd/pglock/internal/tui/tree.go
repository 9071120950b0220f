package tui

import (
	"slices"
	"time"

	"github.com/pglock-toolkit/pglock/monitor"
)

// branch is a place in the blocking tree.
type branch struct {
	*person
	below []*branch
	// behind is how many sessions are blocked by this one, and longest is the longest wait of it and those below.
	behind  int
	longest time.Duration
	// repeated marks a session that is also above: a cycle.
	repeated bool
	server   int
	certain  bool // it or one below it is part of a certain deadlock
}

// grow makes the blocking trees. Each session appears once, below the one that it waits for, in queue order. A session
// that does not wait is a root. In a cycle all wait: the session with the smallest process ID becomes the root, and is
// repeated at the end.
func grow(s *monitor.Snapshot, met people) []*branch {
	g := treeBuilder{snapshot: s, behind: s.Behind(), below: map[*person][]*person{}, added: map[*person]bool{}}
	var roots []*person
	for _, p := range met.all {
		switch blocker := met.primaryBlocker(p); {
		case blocker != nil:
			g.below[blocker] = append(g.below[blocker], p)
		case p.waiter != nil || len(p.inWayOf) > 0:
			roots = append(roots, p)
		}
	}
	var trees []*branch
	for _, root := range roots {
		trees = append(trees, g.add(root))
	}
	for _, p := range met.all {
		if met.primaryBlocker(p) != nil && !g.added[p] {
			trees = append(trees, g.add(firstOfCycle(met, p)))
		}
	}
	return trees
}

// firstOfCycle follows the blockers of p until one repeats, which closes a cycle.
func firstOfCycle(met people, p *person) *person {
	seen := map[*person]bool{}
	for ; !seen[p]; p = met.primaryBlocker(p) {
		seen[p] = true
	}
	first := p
	for next := met.primaryBlocker(p); next != p; next = met.primaryBlocker(next) {
		if comparePeople(next, first) < 0 {
			first = next
		}
	}
	return first
}

type treeBuilder struct {
	snapshot *monitor.Snapshot
	behind   map[monitor.SessionID]int
	below    map[*person][]*person
	added    map[*person]bool
}

func (g treeBuilder) add(p *person) *branch {
	if g.added[p] {
		return &branch{person: p, longest: -1, repeated: true}
	}
	g.added[p] = true
	b := &branch{person: p, longest: -1, behind: g.behind[p.ID()]}
	if p.waiter != nil {
		b.longest = waited(g.snapshot, p.waiter)
	}
	for _, next := range g.below[p] {
		child := g.add(next)
		b.below, b.longest = append(b.below, child), max(b.longest, child.longest)
	}
	return b
}

// flatten writes trees as rows.
func flatten(trees []*branch) (rows []row) {
	var add func(b *branch, guide, below string)
	add = func(b *branch, guide, below string) {
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

func (b *branch) row(guide string) row {
	return row{
		id:      identity{server: b.server, who: b.Session.ID(), repeated: b.repeated},
		certain: b.certain,
		lock:    b.shownLock(),
		person:  b.person,
		longest: b.longest,
		behind:  b.behind,
		guide:   guide,
	}
}

// shownLock returns the lock that the session waits for, or else the first lock that others wait for.
func (b *branch) shownLock() *monitor.Lock {
	if b.lock != nil {
		return b.lock
	}
	i := slices.IndexFunc(b.held, func(lock *monitor.Lock) bool { return len(lock.Waiters) > 0 })
	if i < 0 {
		return nil
	}
	return b.held[i]
}
