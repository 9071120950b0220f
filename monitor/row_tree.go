package monitor

import (
	"iter"
	"slices"
)

// RowTree returns the blocking tree of the locks in rows. Its nodes are processes: [Node.Process] is set, and
// [Node.Wait] is for a [RowLock]. It is drawn as the tree of sessions is.
//
// A process is below the one that holds the lock it waits for. If that is held in no mode that conflicts, the process is
// below the last one that waits ahead of it in a mode that does. Unlike a session, a process can do several things at once,
// so one that waits for a lock may still release another one, and a cycle of processes need not be a deadlock:
// [Node.Deadlock] is never set.
func (s *Snapshot) RowTree() *Tree {
	all := newRowWaits(s.RowLocks)
	t, edges := newTree(s, all.waits())
	for _, n := range t.nodes {
		if p := all.processes[n.ID().Holder]; p != nil {
			n.Process, n.Session = p, all.sessions[p.Holder]
		}
	}
	t.build(edges)
	return t
}

// rowWaits are the waits for locks in rows, in the form of the wait graph.
type rowWaits struct {
	list      []Wait
	processes map[string]*RowProcess // by holder
	sessions  map[string]*Session    // what a node has of a process
}

func (r *rowWaits) waits() iter.Seq[Wait] { return slices.Values(r.list) }

func newRowWaits(locks []RowLock) *rowWaits {
	r := &rowWaits{processes: map[string]*RowProcess{}, sessions: map[string]*Session{}}
	for i := range locks {
		lock := &locks[i]
		for j := range lock.Holders {
			r.note(&lock.Holders[j].RowProcess)
		}
		for j := range lock.Waiters {
			r.note(&lock.Waiters[j].RowProcess)
			r.list = append(r.list, r.wait(lock, j))
		}
	}
	return r
}

func (r *rowWaits) note(p *RowProcess) {
	if r.processes[p.Holder] == nil {
		r.processes[p.Holder] = p
		r.sessions[p.Holder] = &Session{User: p.User, Application: p.Application, Hidden: p.Hidden, holder: p.Holder}
	}
}

// wait returns the wait of a waiter of a lock.
func (r *rowWaits) wait(lock *RowLock, i int) Wait {
	w := &lock.Waiters[i]
	since := w.WaitingSince
	wait := Wait{Row: lock, Waiter: &Waiter{Mode: w.Mode, WaitingSince: &since, Session: *r.sessions[w.Holder], BlockedBy: []Blocker{}}}
	for _, h := range lock.Holders {
		if h.Holder != w.Holder && slices.Contains(w.BlockedBy, h.Holder) {
			wait.BlockedBy = append(wait.BlockedBy, Blocker{Kind: BlockHard, Mode: h.Mode, holder: h.Holder})
		}
	}
	for j := i - 1; j >= 0 && len(wait.BlockedBy) == 0; j-- {
		if ahead := &lock.Waiters[j]; ahead.Holder != w.Holder && ahead.Mode.conflictsWith(w.Mode) {
			wait.BlockedBy = append(wait.BlockedBy, Blocker{Kind: BlockSoft, holder: ahead.Holder})
		}
	}
	return wait
}
