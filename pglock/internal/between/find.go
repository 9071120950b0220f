// Package between finds deadlocks between processes, in what one look at the server has seen: the waits that processes have
// published there, who holds the locks, and which sessions wait.
//
// A process publishes a call that has waited for a second and holds something. A call that waits for a lock waits for its
// holder, and so for what the holder's call waits for, if that is published, and for what the holder's session waits for.
// Nothing else is known: a holder that is not known to wait may release the lock.
package between

import (
	"cmp"
	"slices"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// Sight is what one look has seen.
type Sight struct {
	Now     int64  // the server's clock, in microseconds
	Self    string // the Process that has looked
	Room    int    // bytes of a statement that others see
	Waits   []Wait
	Holders []Holder
	Blocked []Blocked
	Txs     []OpenTx // of those that waits name
}

// Holder holds a lock, or is a transaction that the lock guards. Owner is as in [Claim]. Shared says that it keeps the lock from
// no call that wants it shared: none is in between that does not.
type Holder struct {
	Key         driver.KeyID
	Owner, Role string
	Shared      bool
}

// Blocked is a session that waits for others, for an advisory lock if Key is one.
type Blocked struct {
	PID string
	Key driver.KeyID
	By  []string
}

// OpenTx is a transaction that is open.
type OpenTx struct {
	Tx
	Role string
}

// ID is a wait, for as long as it lasts.
type ID struct {
	Process string
	Number  int64
}

// ID returns w's.
func (w *Wait) ID() ID { return ID{w.Process, w.Number} }

// Deadlock is a set of calls and sessions each of which waits for one of them, and can go on only after it.
type Deadlock struct {
	// Waits are those that are published, the one that is to give up first. If it does not, the next one has to.
	Waits []*Wait
	nodes map[node]bool
	graph *graph
}

// Step is a call or a session in a cycle, and what it waits for: what the next one holds. Wait is nil for a session whose wait
// is not published.
type Step struct {
	Wait *Wait
	PID  string
	Key  driver.KeyID // the zero KeyID is a lock of another kind
}

// node is a *Wait or a *Blocked.
type node any

type graph struct {
	claims  map[Claim][]*Wait
	txs     map[string][]*Wait
	holders map[driver.KeyID][]Holder
	blocked map[string]*Blocked
}

// Find returns the deadlocks that s shows.
func Find(s Sight) (found []Deadlock) {
	g := newGraph(s)
	stuck := map[node]bool{}
	for i := range s.Waits {
		stuck[&s.Waits[i]] = true
	}
	for i := range s.Blocked {
		stuck[&s.Blocked[i]] = true
	}
	for again := true; again; { // leave out who can go on
		again = false
		for n := range stuck {
			if !g.isStuck(n, stuck) {
				delete(stuck, n)
				again = true
			}
		}
	}
	known := map[node]bool{}
	for i := range s.Waits {
		w := &s.Waits[i]
		if !stuck[w] || known[w] {
			continue
		}
		d := Deadlock{nodes: map[node]bool{}, graph: g}
		for n := range g.reach(w, stuck) {
			if g.reach(n, stuck)[w] {
				known[n], d.nodes[n] = true, true
				if member, ok := n.(*Wait); ok {
					d.Waits = append(d.Waits, member)
				}
			}
		}
		if len(d.nodes) > 0 {
			slices.SortFunc(d.Waits, youngerFirst)
			found = append(found, d)
		}
	}
	return found
}

// youngerFirst is the order in which waits give up. Of those in a cycle with locks in rows, processes that see only sessions know
// nothing.
func youngerFirst(a, b *Wait) int {
	if a.SeesAll != b.SeesAll {
		if a.SeesAll {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(b.Began, a.Began), cmp.Compare(b.Process, a.Process), cmp.Compare(b.Number, a.Number))
}

func newGraph(s Sight) *graph {
	g := &graph{map[Claim][]*Wait{}, map[string][]*Wait{}, map[driver.KeyID][]Holder{}, map[string]*Blocked{}}
	for i := range s.Blocked {
		g.blocked[s.Blocked[i].PID] = &s.Blocked[i]
	}
	roles := map[Claim]string{}
	for _, h := range s.Holders {
		g.holders[h.Key] = append(g.holders[h.Key], h)
		roles[Claim{h.Key, h.Owner}] = h.Role
	}
	for i := range s.Waits {
		w := &s.Waits[i]
		for _, c := range w.Holds {
			if c.Owner == Turn {
				c.Owner = w.turn()
			} else if role, held := roles[c]; !held || role != w.Role { // it is over, or made up by another role
				continue
			}
			g.claims[c] = append(g.claims[c], w)
		}
		for _, tx := range w.Txs {
			if slices.Contains(s.Txs, OpenTx{tx, w.Role}) {
				g.txs[tx.PID] = append(g.txs[tx.PID], w)
			}
		}
	}
	return g
}

// turn is the Owner of turns in w's process. No holder is called so.
func (w *Wait) turn() string { return Turn + w.Process }

// isStuck reports whether n can go on only after one of those that are stuck.
func (g *graph) isStuck(n node, stuck map[node]bool) bool {
	isOne := func(n node) bool { return stuck[n] }
	if b, ok := n.(*Blocked); ok {
		return slices.ContainsFunc(g.ahead(b), isOne)
	}
	w, free := n.(*Wait), 0
	for _, key := range w.Wants {
		if !slices.ContainsFunc(g.keepers(w, key), isOne) {
			free++
		}
	}
	if w.Some == 0 {
		return free < len(w.Wants)
	}
	return free < w.Some
}

// keepers returns what is known to wait of those who keep the key from w.
func (g *graph) keepers(w *Wait, key driver.KeyID) []node {
	next := g.of(key, w.turn())
	for _, h := range g.holders[key] {
		if !w.Shared || !h.Shared {
			next = append(next, g.of(key, h.Owner)...)
		}
	}
	if w.Some > 0 || w.Shared && len(w.Wants) == 1 {
		return next // w too: a writer of another process waits between the shared lock that w holds and the one that it wants
	}
	return slices.DeleteFunc(next, func(n node) bool { return n == node(w) }) // its process knows of that one
}

// ahead returns what is known to wait of those who keep b waiting.
func (g *graph) ahead(b *Blocked) (next []node) {
	for _, pid := range b.By {
		next = append(next, g.of(b.Key, pid)...)
	}
	return next
}

// of returns what waits of an owner of the key: its session, calls that hold the key by it, and those in its transaction.
func (g *graph) of(key driver.KeyID, owner string) (next []node) {
	if b := g.blocked[owner]; b != nil {
		next = append(next, b)
	}
	for _, w := range slices.Concat(g.claims[Claim{key, owner}], g.txs[owner]) {
		next = append(next, w)
	}
	return next
}

// edges returns what n waits for, among nodes, and by which key.
func (g *graph) edges(n node, among map[node]bool) map[node]driver.KeyID {
	edges := map[node]driver.KeyID{}
	add := func(key driver.KeyID, next []node) {
		for _, n := range next {
			if among[n] {
				edges[n] = key
			}
		}
	}
	switch n := n.(type) {
	case *Blocked:
		add(n.Key, g.ahead(n))
	case *Wait:
		for _, key := range n.Wants {
			add(key, g.keepers(n, key))
		}
	}
	return edges
}

// reach returns what is behind n, among nodes; n itself only if it is.
func (g *graph) reach(n node, among map[node]bool) map[node]bool {
	reached, open := map[node]bool{}, []node{n}
	for len(open) > 0 {
		last := open[len(open)-1]
		open = open[:len(open)-1]
		for next := range g.edges(last, among) {
			if !reached[next] {
				reached[next] = true
				open = append(open, next)
			}
		}
	}
	return reached
}

// Cycle returns a shortest cycle through w, which comes first.
func (d Deadlock) Cycle(w *Wait) []Step {
	paths := [][]Step{{{Wait: w}}}
	last := []node{w}
	for seen := (map[node]bool{}); len(paths) > 0; paths, last = paths[1:], last[1:] {
		for next, key := range d.graph.edges(last[0], d.nodes) {
			path := slices.Clone(paths[0])
			path[len(path)-1].Key = key
			if next == node(w) {
				return path
			}
			if seen[next] {
				continue
			}
			seen[next] = true
			step := Step{}
			switch n := next.(type) {
			case *Wait:
				step.Wait = n
			case *Blocked:
				step.PID = n.PID
			}
			paths, last = append(paths, append(path, step)), append(last, next)
		}
	}
	return nil
}
