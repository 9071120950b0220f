package web

import (
	"fmt"
	"time"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/fold"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/internal/display"
	"github.com/pglock-toolkit/pglock/monitor"
)

// node is a row of the blocking tree: a session, a process that uses locks in rows, or a fold of alike ones. Its parent is
// the last node before it whose depth is smaller by one.
type node struct {
	ID    string `json:"id"`
	Depth int    `json:"depth"`
	party
	// Wait is its wait, or nil for a root.
	Wait *wait `json:"wait"`
	// Holds is what a root holds and most of those below it wait for.
	Holds    *lockName `json:"holds"`
	Mode     string    `json:"mode"` // how it holds or wants the lock
	Behind   int       `json:"behind"`
	Deadlock bool      `json:"deadlock"`
	// Fold is set for a fold, whose members follow as far as there is room. In is the ID of the fold that a member is in.
	Fold *foldRow `json:"fold"`
	In   string   `json:"in"`
	details
}

// wait says which session blocks another, for which lock.
type wait struct {
	Lock lockName `json:"lock"`
	// Again says that the row above shows the same lock.
	Again bool       `json:"again"`
	Since *time.Time `json:"since"`
	party            // the blocker
	Soft  bool       `json:"soft"` // the blocker is ahead in the queue
	More  int        `json:"more"` // number of other blockers
}

// foldRow is what a row says of several nodes.
type foldRow struct {
	Count    int        `json:"count"`
	Sent     int        `json:"sent"` // how many of them follow
	First    party      `json:"first"`
	Last     party      `json:"last"`
	Youngest *time.Time `json:"youngest"` // when the shortest wait began
}

// details are shown when a row is opened.
type details struct {
	Database   string     `json:"database"`
	Client     string     `json:"client"`
	State      string     `json:"state"`
	StateSince *time.Time `json:"state_since"`
	Since      *time.Time `json:"session_since"`
	Query      string     `json:"query"`
	SeenSince  *time.Time `json:"seen_since"`
	Code       string     `json:"code"`
	Lease      *time.Time `json:"lease_until"`
	Command    string     `json:"command"` // ends it
}

// blocking is the part of a snapshot's blocking tree that the page shows, with what the page adds to it.
type blocking struct {
	chosen
	tree    *monitor.Tree
	holders map[monitor.SessionID]*monitor.Holder // by session: of the first lock that others wait for
}

// newBlocking returns the blocking trees, or their part that concerns the locks with a key.
func newBlocking(s *monitor.Snapshot, locks chosen) blocking {
	b := blocking{chosen: locks, tree: s.Tree(), holders: map[monitor.SessionID]*monitor.Holder{}}
	for _, lock := range locks.locks {
		for i := 0; i < len(lock.Holders) && len(lock.Waiters) > 0; i++ {
			holder := &lock.Holders[i]
			if _, known := b.holders[holder.ID()]; !known {
				b.holders[holder.ID()] = holder
			}
		}
	}
	if !locks.all {
		b.tree = b.tree.Of(locks.has, nil)
	}
	return b
}

// action returns the best action for what is shown.
func (b blocking) action(s *monitor.Snapshot) monitor.Action {
	if b.all {
		return s.Action()
	}
	return s.ActionOf(b.has, nil)
}

// longest returns when the longest wait began, apart from those that belong to normal work.
func (b blocking) longest() (since *time.Time) {
	for _, n := range b.tree.All() {
		if n.Wait != nil && !n.Wait.Expected {
			since = earlier(since, n.Wait.WaitingSince)
		}
	}
	return since
}

// placed is a branch in the tree.
type placed struct {
	fold.Branch
	depth int
}

// rows returns the first rows of the trees, and how many sessions were left out. Members of folds take what room there is.
func (b blocking) rows(flags string) (rows []node, left int) {
	var branches []placed
	for depth, branch := range fold.Branches(b.tree) {
		if len(branches) == maxNodes {
			left += len(branch.Nodes)
			continue
		}
		branches = append(branches, placed{branch, depth})
	}
	rows = []node{}
	room, last := maxNodes-len(branches), "" // last is the lock that the row above shows
	for _, branch := range branches {
		one := b.node(branch.First(), branch.depth, flags)
		label := one.lock()
		if one.Wait != nil {
			one.Wait.Again = label == last
		}
		if last = label; !branch.Folded() {
			rows = append(rows, one)
			continue
		}
		members := branch.Nodes[:min(len(branch.Nodes), room, maxMembers)]
		room -= len(members)
		one = foldOf(branch, one, len(members))
		rows = append(rows, one)
		for _, n := range members {
			member := b.node(n, branch.depth+1, flags)
			member.In, member.Wait.Again = one.ID, true
			rows = append(rows, member)
		}
	}
	return rows, left
}

// lock returns the name of the lock that the row shows.
func (n node) lock() string {
	switch {
	case n.Wait != nil:
		return n.Wait.Lock.Label
	case n.Holds != nil:
		return n.Holds.Label
	}
	return ""
}

// foldOf makes a row of several nodes from that of the first.
func foldOf(branch placed, first node, sent int) node {
	parent := ""
	if n := branch.First().Parent(); n != nil {
		parent = idOf(n.ID())
	}
	last := nodeParty(branch.Last())
	folded := node{ID: fmt.Sprintf("fold-%s-%s", parent, short(first.Wait.Lock.Label+" "+first.Mode)), Depth: first.Depth,
		Wait: first.Wait, Mode: first.Mode}
	folded.Fold = &foldRow{Count: len(branch.Nodes), Sent: sent, First: first.party, Last: last, Youngest: branch.Last().Wait.WaitingSince}
	return folded
}

func (b blocking) node(n *monitor.Node, depth int, flags string) node {
	shown := node{ID: idOf(n.ID()), Depth: depth, party: nodeParty(n), Behind: n.Behind, Deadlock: n.Deadlock, details: b.detailsOf(n, flags)}
	if n.Wait != nil {
		shown.Wait, shown.Mode = waitOf(n), display.Mode(n.Wait.Mode)
	} else if label, mode, ok := n.Held(); ok {
		shown.Holds, shown.Mode = &lockName{keyOfLabel(n, label), label}, display.Mode(mode)
	}
	return shown
}

func (b blocking) detailsOf(n *monitor.Node, flags string) details {
	d := details{Database: n.Database, Client: n.Client, State: n.State, StateSince: n.StateSince, Since: n.Session.Since,
		Query: cut(n.Query, maxQuery)}
	if holder := b.holders[n.ID()]; holder != nil {
		d.SeenSince, d.Code = holder.SeenSince, cut(holder.Code, maxQuery)
	}
	switch {
	case n.Lease != nil:
		d.Lease, d.Command = n.Lease.Expires, view.EndSession("terminate", n.Lease.Holder, flags)
	case n.Prepared():
		d.StateSince, d.Command = n.PreparedAt, view.EndPrepared(*n.Session)
	case d.Since != nil && n.LeaderPID == 0:
		d.Command = view.EndSession("terminate", n.SessionRef(), flags)
	}
	return d
}

// keyOfLabel returns the key of a lock that children of the node wait for, or "" if it has none.
func keyOfLabel(n *monitor.Node, label string) string {
	for _, child := range n.Children {
		if child.Wait.Label() == label {
			return keyOf(child.Wait)
		}
	}
	return ""
}

func keyOf(w *monitor.Wait) string {
	if w.Lock != nil {
		return w.Lock.Key
	}
	return ""
}

func waitOf(n *monitor.Node) *wait {
	shown := &wait{Lock: lockName{keyOf(n.Wait), n.Wait.Label()}, Since: n.Wait.WaitingSince, More: max(0, len(n.Wait.BlockedBy)-1)}
	if n.Blocker != nil {
		shown.party = nodeParty(n.Blocker)
		shown.Soft = n.Kind == "soft"
	}
	return shown
}
