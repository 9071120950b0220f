package web

import (
	"cmp"
	"slices"

	"github.com/pglock-toolkit/pglock/monitor"
)

// treeBuilder builds the blocking tree of a snapshot, from the waits for locks of all types that concern the page.
type treeBuilder struct {
	snapshot   *monitor.Snapshot
	waits      map[monitor.SessionID]monitor.Wait
	sessions   map[monitor.SessionID]monitor.Session
	holders    map[monitor.SessionID]*monitor.Holder // of contended locks
	held       map[monitor.SessionID]*monitor.Lock
	behind     map[monitor.SessionID]int
	deadlocked map[int32]bool // sessions in a certain or possible deadlock
	certain    map[int32]bool
	below      map[monitor.SessionID][]monitor.SessionID
	added      map[monitor.SessionID]bool
	rows       []node
	omitted    int // number of sessions that were left out
}

// newTreeBuilder returns a builder for a snapshot of which the page shows the given locks.
func newTreeBuilder(s *monitor.Snapshot, locks []*monitor.Lock) *treeBuilder {
	f := &treeBuilder{
		snapshot: s, behind: s.Behind(), deadlocked: map[int32]bool{}, certain: map[int32]bool{},
		waits:    map[monitor.SessionID]monitor.Wait{},
		sessions: map[monitor.SessionID]monitor.Session{},
		holders:  map[monitor.SessionID]*monitor.Holder{},
		held:     map[monitor.SessionID]*monitor.Lock{},
		below:    map[monitor.SessionID][]monitor.SessionID{},
		added:    map[monitor.SessionID]bool{},
		rows:     []node{},
	}
	f.readWaits(locks)
	return f
}

// tree puts each waiter below the first session that holds the lock that it waits for, of any type, or else below the
// first that is ahead in the queue. The roots are the sessions that do not wait, those with the most sessions behind them
// first. The root of a deadlock is the session with the smallest process ID. If only some locks are shown, the tree has
// their waiters and all sessions that these wait for, directly or through others. Certain deadlocks come first.
func (f *treeBuilder) tree(locks []*monitor.Lock, all bool) (rows []node, left int) {
	var roots, waiting []monitor.SessionID
	for _, id := range f.shown(locks, all) {
		parent, waits := f.parent(id)
		if !waits {
			roots = append(roots, id)
			continue
		}
		f.below[parent] = append(f.below[parent], id)
		waiting = append(waiting, id)
	}
	slices.SortStableFunc(roots, func(a, b monitor.SessionID) int {
		return cmp.Or(cmp.Compare(f.behind[b], f.behind[a]), a.Compare(b))
	})
	for _, id := range waiting {
		if f.certain[id.PID] && !f.added[id] {
			f.addTree(f.rootOf(id))
		}
	}
	for _, id := range roots {
		f.addTree(id)
	}
	for _, id := range waiting {
		if !f.added[id] { // the session is in a cycle, or below one
			f.addTree(f.rootOf(id))
		}
	}
	return f.rows, f.omitted
}

func (f *treeBuilder) readWaits(locks []*monitor.Lock) {
	for session := range f.snapshot.Sessions() {
		f.sessions[session.ID()] = session
	}
	for wait := range f.snapshot.Waits() {
		if _, known := f.waits[wait.ID()]; !known {
			f.waits[wait.ID()] = wait
		}
	}
	for _, cycle := range f.snapshot.Cycles {
		for _, step := range cycle.Steps {
			f.deadlocked[step.PID] = true
			f.certain[step.PID] = f.certain[step.PID] || cycle.Certain
		}
	}
	for _, lock := range locks {
		for i := range lock.Holders {
			id := lock.Holders[i].ID()
			if len(lock.Waiters) > 0 && f.holders[id] == nil {
				f.holders[id], f.held[id] = &lock.Holders[i], lock
			}
		}
	}
}

// shown returns the sessions of the tree. A waiter comes before the sessions that it waits for.
func (f *treeBuilder) shown(locks []*monitor.Lock, all bool) (ids []monitor.SessionID) {
	seen := map[monitor.SessionID]bool{}
	add := func(id monitor.SessionID) {
		if !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	for _, lock := range locks {
		for i := range lock.Waiters {
			add(lock.Waiters[i].ID())
		}
	}
	if all {
		for i := range f.snapshot.OtherWaits {
			add(f.snapshot.OtherWaits[i].ID())
		}
	}
	for i := 0; i < len(ids); i++ { // ids grows
		for _, blocker := range f.waits[ids[i]].BlockedBy {
			add(blocker.ID())
		}
	}
	return ids
}

// parent returns the session above a waiter, or false if it is a root.
func (f *treeBuilder) parent(id monitor.SessionID) (monitor.SessionID, bool) {
	blockers := f.waits[id].BlockedBy
	if len(blockers) == 0 {
		return monitor.SessionID{}, false
	}
	first := slices.IndexFunc(blockers, func(b monitor.Blocker) bool { return b.Kind == monitor.BlockHard })
	return blockers[max(0, first)].ID(), true
}

// rootOf returns the root of a session's tree or, in a cycle, the session with the smallest process ID.
func (f *treeBuilder) rootOf(id monitor.SessionID) monitor.SessionID {
	seen := map[monitor.SessionID]bool{}
	for !seen[id] {
		seen[id] = true
		parent, waits := f.parent(id)
		if !waits {
			return id
		}
		id = parent
	}
	first := id
	for next, _ := f.parent(id); next != id; next, _ = f.parent(next) {
		if next.Compare(first) < 0 {
			first = next
		}
	}
	return first
}

// addTree adds a session and those below it, unless it has already been added. It does not recurse, since chains can be
// long.
func (f *treeBuilder) addTree(root monitor.SessionID) {
	type place struct {
		id    monitor.SessionID
		depth int
	}
	todo := []place{{root, 0}}
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if f.added[at.id] {
			continue
		}
		f.added[at.id] = true
		if len(f.rows) < maxNodes {
			f.rows = append(f.rows, f.node(at.id, at.depth))
		} else {
			f.omitted++
		}
		for _, child := range slices.Backward(f.below[at.id]) {
			todo = append(todo, place{child, at.depth + 1})
		}
	}
}

func (f *treeBuilder) node(id monitor.SessionID, depth int) node {
	session, known := f.sessions[id]
	if !known { // the session had just begun or ended
		session = monitor.Session{PID: id.PID, GID: id.GID}
	}
	n := node{ID: idOf(id), Depth: depth, party: partyOf(&session, ""), Behind: f.behind[id], Deadlock: f.deadlocked[id.PID]}
	if holder := f.holders[id]; holder != nil {
		n.party = holderOf(holder)
		n.Holds = &lockName{f.held[id].Key, f.held[id].Label()}
	}
	if wait, waits := f.waits[id]; waits {
		n.Wait = f.waitOf(wait)
		n.Mode = string(wait.Mode)
	}
	return n
}

func (f *treeBuilder) waitOf(w monitor.Wait) *wait {
	shown := &wait{Lock: lockName{Label: w.Label()}, Since: w.WaitingSince, More: max(0, len(w.BlockedBy)-1)}
	if w.Lock != nil {
		shown.Lock.Key = w.Lock.Key
	}
	if parent, blocked := f.parent(w.ID()); blocked {
		session := f.sessions[parent]
		shown.PID, shown.GID, shown.Application = parent.PID, parent.GID, session.Application
		shown.Soft = !slices.ContainsFunc(w.BlockedBy, func(b monitor.Blocker) bool { return b.Kind == monitor.BlockHard })
	}
	return shown
}
