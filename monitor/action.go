package monitor

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Action is the best that can be done about the waits of a snapshot: of all signals that could be sent, and none, the one that
// frees most for the least loss. All faces of pglock monitor, and its checks and events, show the same one. Waits that belong to
// normal work ([Waiter.Expected]) do not count.
//
// What a signal frees is simulated ([Effect]). Of those that free at least half as many sessions as the one that
// frees most, the best is the one that loses least: cancelling a wait in a transaction that has done nothing loses
// nothing. Then come an idle transaction, work, and a leader, permit or run of a job. A signal that frees none is never
// the action, nor one to the server's own processes, an autovacuum worker, or a commit that waits for a standby.
type Action struct {
	// Signal is "cancel" or "terminate", "rollback" for a prepared transaction, and empty if no signal helps, or nothing waits.
	Signal string
	// Whom are the sessions, prepared transactions or processes that it is sent to: several if only all of them together free
	// the lock that they share. If Signal is empty, they are those that most wait for, if any.
	Whom []*Node
	// Why says why Signal is empty although sessions wait, or who may send it if the role of the snapshot may not.
	Why string
	Effect
	// Longest is the longest wait.
	Longest time.Duration
	// Cycle is the certain deadlock that the first of Whom is part of.
	Cycle *Cycle
	// Other is another good action, which frees more and loses more; nil if there is none.
	Other *Action

	// Waiting is how many sessions and processes wait, and Expected how many waits belong to normal work and are not among
	// these. Waits that are only counted (Elsewhere) are not among them, nor waits for locks in rows if these could not be
	// read ([Snapshot.RowLocksMissing]).
	Waiting, Expected int
	// Held is how many advisory locks and locks in rows are held.
	Held int
	// Elsewhere is [Snapshot.WaitsElsewhere].
	Elsewhere int

	at         time.Time
	database   string     // the connected one, which the text does not name
	lock, mode string     // what the first of Whom holds and most of those below it wait for, or what it waits for itself
	since      *time.Time // since when the first of Whom is as it is
	nextHidden bool       // PostgreSQL names one blocker at a time, so who is next in the way is not known
	refs       []string
	oldest     Wait // the longest wait
	filtered   bool // it is of some locks
	hidden     int  // waits that it is not about, if it is of some locks, and nothing waits for these
	unread     bool // the locks in rows could not be read
	more       bool // locks are held that are left out
	holds      []string
}

// signalRollback is what ends a prepared transaction.
const signalRollback = "rollback"

// maxTogether is how many sessions an action signals at most, and maxActions how many actions are compared.
const (
	maxTogether = 8
	maxActions  = 500
)

// Action returns the best action of the snapshot.
func (s *Snapshot) Action() Action {
	a := Action{Elsewhere: s.WaitsElsewhere}
	a.count(s, func(*Lock) bool { return true })
	return a.of(s, s.Tree(), nil)
}

// ActionOf returns the best action for the waits that concern some of the locks: for them, and for locks that their holders and
// waiters hold or wait for, and of some waits for locks of other types ([Tree.Of]). What it frees is still counted in the whole
// snapshot. Elsewhere is 0. showsOther may be nil, for none.
func (s *Snapshot) ActionOf(shows func(*Lock) bool, showsOther func(*OtherWait) bool) Action {
	a := Action{filtered: true}
	a.count(s, shows)
	whole := s.Tree()
	a = a.of(s, whole, whole.Of(shows, showsOther))
	if a.Waiting == 0 {
		a.hidden = s.Action().Waiting
	}
	return a
}

// count counts the locks that are held, but for those of processes whose leases are over, and the waits that are expected.
func (a *Action) count(s *Snapshot, shows func(*Lock) bool) {
	for i := range s.Locks {
		lock := &s.Locks[i]
		if !shows(lock) {
			continue
		}
		for j := range lock.Waiters {
			if lock.Waiters[j].Expected {
				a.Expected++
			}
		}
		if slices.ContainsFunc(lock.Holders, func(h Holder) bool { return !h.Lease.over(s.TakenAt) }) {
			a.Held++
		}
	}
}

// of fills in what can be done about the sessions in a part of a tree, or in all of it if part is nil.
func (a Action) of(s *Snapshot, t, part *Tree) Action {
	a.at, a.database, a.unread = s.TakenAt, s.Database, s.rowsUnread()
	a.more = s.IdleRowsMissing != "" && !a.filtered
	waiters := map[SessionID]bool{}
	for wait := range s.Waits() {
		if wait.Expected || part != nil && part.Node(wait.ID()) == nil {
			continue
		}
		waiters[wait.ID()] = true
		if a.oldest.Waiter == nil || compareSince(wait.WaitingSince, a.oldest.WaitingSince) < 0 {
			a.oldest = wait
		}
	}
	if a.Waiting = len(waiters); a.Waiting == 0 {
		return a
	}
	a.Longest = a.oldest.waited(s.TakenAt)
	c := chooser{s: s, t: t, m: newSimulation(s, t.graph), held: s.heldBy()}
	best, more, ok := c.choose(part)
	if !ok {
		return c.explain(a)
	}
	a = c.describe(a, best)
	if more != nil {
		other := c.describe(Action{at: a.at, database: a.database}, *more)
		a.Other = &other
	}
	return a
}

// candidate is an action that is compared with others.
type candidate struct {
	signals []sent
	wait    *Wait // which it ends
	Effect
	cost
	allowed  bool // to the role of the snapshot
	deadlock bool // it ends a deadlock, which does not end by itself as other waits may
}

// chooser compares what could be done.
type chooser struct {
	s    *Snapshot
	t    *Tree
	m    *simulation
	held map[SessionID][]*Lock
}

// choose returns the best action and, if there is one, another that frees more and loses more. A session can go on at once only if
// all its nearest blockers are gone, so these are what is compared, for each wait.
func (c *chooser) choose(part *Tree) (best candidate, more *candidate, ok bool) {
	var all []candidate
	known := map[string]bool{}
	for _, w := range c.m.waits {
		if len(w.blockers) == 0 || len(w.blockers) > maxTogether || part != nil && part.nodes[w.waiter] == nil {
			continue
		}
		name := fmt.Sprint(w.hard, w.blockers)
		if known[name] || len(known) == maxActions {
			continue
		}
		known[name] = true
		if one, possible := c.candidate(w); possible {
			all = append(all, one)
		}
	}
	if len(all) == 0 {
		return candidate{}, nil, false
	}
	most := slices.MaxFunc(all, func(a, b candidate) int { return cmp.Compare(a.AtMost, b.AtMost) })
	best = slices.MinFunc(all, func(a, b candidate) int {
		return cmp.Or(compareBool(2*a.AtMost < most.AtMost, 2*b.AtMost < most.AtMost), compareBool(!a.allowed, !b.allowed),
			compareBool(!a.deadlock, !b.deadlock), a.cost.compare(b.cost), cmp.Compare(b.AtMost, a.AtMost),
			cmp.Compare(b.Frees, a.Frees), cmp.Compare(a.holds, b.holds), cmp.Compare(a.age, b.age))
	})
	both := c.m.effect(slices.Concat(best.signals, most.signals)) // frees the sum, if each frees others
	if most.AtMost > best.AtMost && both.AtMost < best.AtMost+most.AtMost {
		more = &most
	}
	return best, more, true
}

// candidate returns what would let a wait end at once. It is not possible if one of those in the way must not be signalled.
func (c *chooser) candidate(w simulatedWait) (one candidate, possible bool) {
	one.allowed, one.wait = true, c.t.nodes[w.waiter].Wait
	for _, b := range w.blockers {
		n := c.t.nodes[b]
		if n.untouchable() != "" || !w.hard && n.Wait == nil {
			return one, false
		}
		one.signals = append(one.signals, sent{b, w.hard})
		one.allowed, one.deadlock = one.allowed && n.SignalledBy == "", one.deadlock || n.Certain
		one.cost = one.add(costOf(n, w.hard, c.held[n.ID()], c.s.TakenAt))
	}
	one.Effect = c.m.effect(one.signals)
	return one, one.AtMost > 0
}

// describe fills in what there is to know of a candidate.
func (c *chooser) describe(a Action, chosen candidate) Action {
	a.Effect, a.Signal = chosen.Effect, signalTerminate
	a.nextHidden = chosen.wait.Other != nil && !chosen.wait.exact()
	for _, s := range chosen.signals {
		a.Whom = append(a.Whom, c.t.nodes[s.session])
	}
	slices.SortFunc(a.Whom, func(x, y *Node) int { return x.ID().compare(y.ID()) })
	first := a.Whom[0]
	switch {
	case !chosen.signals[0].ends:
		a.Signal = signalCancel
	case first.Prepared():
		a.Signal = signalRollback
	}
	for _, n := range a.Whom {
		if n.SignalledBy != "" && a.Why == "" {
			a.Why = "only " + n.SignalledBy + " may"
		}
		a.refs = append(a.refs, n.ref())
		for _, lock := range c.held[n.ID()] {
			if lock.primary() && a.Signal != signalCancel {
				a.holds = append(a.holds, lock.Label())
			}
		}
	}
	if a = c.about(a, first); len(a.Whom) > 1 && a.Signal != signalCancel {
		a.lock = chosen.wait.Label()
	}
	return a
}

// about fills in what there is to know of the first of those that an action is about.
func (c *chooser) about(a Action, n *Node) Action {
	a.lock, a.mode, _ = n.Held()
	switch {
	case a.Signal == signalCancel && n.Wait != nil:
		a.lock, a.mode, a.since = n.Wait.Label(), n.Wait.Mode, n.Wait.WaitingSince
	case n.Prepared():
		a.since = n.PreparedAt
	default:
		a.since = n.StateSince
	}
	for i := range c.s.Cycles {
		cycle := &c.s.Cycles[i]
		if a.Cycle == nil && cycle.Certain && slices.ContainsFunc(cycle.Steps, func(step Step) bool { return step.PID == n.PID && n.PID != 0 }) {
			a.Cycle = cycle
		}
	}
	return a
}

// explain says why no signal helps the longest wait, and who is at the root of it.
func (c *chooser) explain(a Action) Action {
	below := c.t.Node(a.oldest.ID())
	if below.Parent() == nil {
		a.Why = "it is unknown which sessions block them"
		return a
	}
	for below.Parent().Parent() != nil {
		below = below.Parent()
	}
	root := below.Parent()
	a.Why = root.untouchable()
	if share := len(below.Wait.BlockedBy); a.Why == "" && share > 1 {
		a.Why = fmt.Sprintf("%d share it, and all must end", share)
	}
	a.Why, a.Whom = cmp.Or(a.Why, "no signal to it frees any"), []*Node{root}
	return c.about(a, root)
}

// heldBy returns the advisory locks and locks in rows of each session and process.
func (s *Snapshot) heldBy() map[SessionID][]*Lock {
	held := map[SessionID][]*Lock{}
	for i := range s.Locks {
		lock := &s.Locks[i]
		for j := range lock.Holders {
			id := lock.Holders[j].ID()
			held[id] = append(held[id], lock)
		}
	}
	return held
}

// rowsUnread reports whether there may be locks in rows that could not be read. If only some were left out, there are others.
func (s *Snapshot) rowsUnread() bool {
	return s.RowLocksMissing != "" && !slices.ContainsFunc(s.Locks, func(l Lock) bool { return l.InRow })
}
