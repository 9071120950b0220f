package journal

import "github.com/pglock-toolkit/pglock/monitor"

// withRoot names the root of the wait of a session, if the session that blocks it waits itself.
func (s step) withRoot(e Event, waiter monitor.SessionID) Event {
	n := s.tree().Node(waiter)
	if n == nil || n.Parent() == nil || n.Parent().Parent() == nil {
		return e
	}
	below := n
	for below.Parent().Parent() != nil {
		below = below.Parent()
	}
	root := party(*below.Parent().Session)
	e.Root, e.RootLock = &root, below.Wait.Label()
	return e
}

// holderBlockedEvents returns the events about holders of locks with waiters that wait themselves, and did not before, or for
// another lock. A deadlock has an event of its own. The tree is made only if there are any.
func (s step) holderBlockedEvents(now *monitor.Snapshot) []Event {
	waiting := map[monitor.SessionID]bool{}
	for wait := range now.Waits() {
		waiting[wait.ID()] = true
	}
	var events []Event
	blocked := map[waitID]string{}
	for i := range now.Locks {
		lock := &now.Locks[i]
		if len(lock.Waiters) == 0 {
			continue
		}
		for k := range lock.Holders {
			holder := &lock.Holders[k]
			if !waiting[holder.ID()] {
				continue
			}
			n := s.tree().Node(holder.ID())
			id := waitID{lockIDOf(lock), sessionIDOf(&holder.Session)}
			if _, seen := blocked[id]; seen || n.Blocker == nil || n.Deadlock || len(blocked) == maxKeys {
				continue
			}
			blocked[id] = n.Wait.Label()
			if s.blocked[id] != blocked[id] {
				events = append(events, s.holderBlocked(lock, holder, n))
			}
		}
	}
	s.blocked = blocked
	return events
}

func (s step) holderBlocked(lock *monitor.Lock, holder *monitor.Holder, n *monitor.Node) Event {
	e := s.event(HolderBlocked, s.at).withLock(lock).withSession(holderParty(*holder))
	e.Mode, e.WaitsFor, e.WaitingSince = holder.Mode, n.Wait.Label(), n.Wait.WaitingSince
	e.BlockedBy = []Party{party(*n.Blocker.Session)}
	return s.withRoot(e, holder.ID())
}
