package web

import "github.com/pglock-toolkit/pglock/monitor"

// blocking is the blocking tree of a snapshot, with what the page adds to it.
type blocking struct {
	*monitor.Tree
	holders map[monitor.SessionID]holding // by session: the first of its locks that others wait for
}

type holding struct {
	*monitor.Holder
	lock *monitor.Lock
}

// newBlocking returns the part of the blocking tree that concerns some locks, or the whole tree.
func newBlocking(s *monitor.Snapshot, locks []*monitor.Lock, all bool) blocking {
	b := blocking{s.Tree(), map[monitor.SessionID]holding{}}
	shown := map[*monitor.Lock]bool{}
	for _, lock := range locks {
		shown[lock] = true
		for i := range lock.Holders {
			holder := &lock.Holders[i]
			if _, known := b.holders[holder.ID()]; !known && len(lock.Waiters) > 0 {
				b.holders[holder.ID()] = holding{holder, lock}
			}
		}
	}
	if !all {
		b.Tree = b.Of(func(lock *monitor.Lock) bool { return shown[lock] })
	}
	return b
}

// nodes returns the first sessions of the tree, and how many were left out.
func (b blocking) nodes() (nodes []node, left int) {
	nodes = []node{}
	for depth, n := range b.All() {
		if len(nodes) == maxNodes {
			left++
			continue
		}
		nodes = append(nodes, b.node(n, depth))
	}
	return nodes, left
}

func (b blocking) node(n *monitor.Node, depth int) node {
	shown := node{ID: idOf(n.ID()), Depth: depth, party: partyOf(n.Session, ""), Behind: n.Behind, Deadlock: n.Deadlock}
	if holds, ok := b.holders[n.ID()]; ok {
		shown.party = holderOf(holds.Holder)
		shown.Holds = &lockName{holds.lock.Key, holds.lock.Label()}
	}
	if n.Wait != nil {
		shown.Wait = waitOf(n)
		shown.Mode = string(n.Wait.Mode)
	}
	return shown
}

func waitOf(n *monitor.Node) *wait {
	shown := &wait{Lock: lockName{Label: n.Wait.Label()}, Since: n.Wait.WaitingSince, More: max(0, len(n.Wait.BlockedBy)-1)}
	if n.Wait.Lock != nil {
		shown.Lock.Key = n.Wait.Lock.Key
	}
	if n.Blocker != nil {
		shown.PID, shown.GID, shown.Application = n.Blocker.PID, n.Blocker.GID, n.Blocker.Application
		shown.Soft = n.Kind == monitor.BlockSoft
	}
	return shown
}
