// Package between finds deadlocks between processes, in what one look at the server has seen: the waits that processes have
// published there, who holds the locks, and which sessions wait.
//
// A process publishes a call that has waited for a second and holds something. A call that waits for a lock waits for its
// holder, and so for what the holder's call waits for, if that is published, and for what the holder's session waits for.
// Nothing else is known: a holder that is not known to wait may release the lock.
package between

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

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
	driver.KeyID
	Owner, Role string
	Shared      bool
}

// Blocked is a session that waits for others, for an advisory lock if KeyID is one.
type Blocked struct {
	driver.KeyID
	PID string
	By  []string
}

// OpenTx is a transaction that is open.
type OpenTx struct {
	Tx
	Role string
}

// Read reads the answers of queries/waits.sql and pglock.lease_waits, in which a text is that of a process.
func Read(answers ...string) (s Sight, err error) {
	for _, answer := range answers {
		var one struct {
			Sight
			Texts []struct {
				Process, Role, Application, Text string
				SeesAll                          bool
			}
		}
		if err := json.Unmarshal([]byte(answer), &one); err != nil {
			return s, fmt.Errorf("read the waits of processes: %w", err)
		}
		for _, t := range one.Texts {
			for _, w := range Parse(strings.TrimPrefix(t.Text, Prefix)) {
				w.Process, w.Role, w.Application, w.SeesAll = t.Process, t.Role, t.Application, t.SeesAll
				s.Waits = append(s.Waits, w)
			}
		}
		s.Now, s.Self, s.Room = max(s.Now, one.Now), one.Self, one.Room
		s.Holders, s.Blocked, s.Txs = append(s.Holders, one.Holders...), append(s.Blocked, one.Blocked...), append(s.Txs, one.Txs...)
	}
	return s, nil
}

// Add adds a wait of the process that has looked, which there was no room to publish. It has no Process, and Answers 0: a deadlock
// with it is seen, but does not count yet.
func (s *Sight) Add(own Wait) {
	if i := slices.IndexFunc(s.Waits, func(w Wait) bool { return w.Process == s.Self }); i >= 0 {
		own.Answers, own.Role, own.SeesAll = 0, s.Waits[i].Role, s.Waits[i].SeesAll
		s.Waits = append(s.Waits, own)
	}
}

// Step is a call or a session in a cycle, and what it waits for: what the next one holds. Wait is nil for a session whose wait
// is not published.
type Step struct {
	Wait *Wait
	PID  string
	Key  driver.KeyID // the zero KeyID is a lock of another kind
	to   party
}

// party is a call or a session.
type party struct {
	wait *Wait
	pid  string
}

// Graph is who waits for whom.
type Graph struct {
	Waits   map[ID]*Wait
	claims  map[Claim][]*Wait
	txs     map[string][]*Wait
	holders map[driver.KeyID][]Holder
	blocked map[string]Blocked
}

// NewGraph returns what s shows. It depends on no order.
func NewGraph(s Sight) *Graph {
	g := &Graph{map[ID]*Wait{}, map[Claim][]*Wait{}, map[string][]*Wait{}, map[driver.KeyID][]Holder{}, map[string]Blocked{}}
	for _, b := range s.Blocked {
		g.blocked[b.PID] = b
	}
	slices.SortFunc(s.Holders, func(a, b Holder) int { return cmp.Compare(a.Owner, b.Owner) })
	roles := map[Claim]string{}
	for _, h := range s.Holders {
		g.holders[h.KeyID] = append(g.holders[h.KeyID], h)
		roles[Claim{h.KeyID, h.Owner}] = h.Role
	}
	slices.SortFunc(s.Waits, func(a, b Wait) int { return younger(&a, &b) })
	for i := range s.Waits {
		w := &s.Waits[i]
		g.Waits[w.ID] = w
		for _, c := range w.Holds {
			if role, held := roles[c]; !held || role != w.Role { // it is over, or made up by another role
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

// younger is the order in which waits give up. Of those in a cycle with locks in rows, processes that see only sessions know
// nothing.
func younger(a, b *Wait) int {
	if a.SeesAll != b.SeesAll {
		if a.SeesAll {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(b.Began, a.Began), cmp.Compare(b.Process, a.Process), cmp.Compare(b.Number, a.Number))
}

// Cycle returns a cycle through w of calls and sessions that wait for each other, and can go on only after another of them; nil if
// there is none. Of those in it, rank younger ones are to give up before w.
//
// So at most one call for each cycle is the first to give up, and in each deadlock there is one: its youngest.
func (g *Graph) Cycle(w *Wait) (cycle []Step, rank int) {
	to := func(s Step) party { return s.to }
	elder := func(p party) ([][]Step, int) { return g.needs(p, w) }
	if cycle = Search(party{wait: w}, elder, to); cycle != nil {
		return cycle, 0
	}
	all := func(p party) ([][]Step, int) { return g.needs(p, nil) }
	cycle = Search(party{wait: w}, all, to)
	for _, step := range cycle {
		if step.Wait != nil && younger(step.Wait, w) < 0 {
			rank++
		}
	}
	return cycle, rank
}

// needs returns what is known to wait of those who keep p waiting, for each of its keys, without waits that are younger than
// one.
func (g *Graph) needs(p party, than *Wait) (keepers [][]Step, some int) {
	if p.wait == nil {
		b := g.blocked[p.pid]
		return [][]Step{g.steps(p, than, b.KeyID, b.By...)}, 0
	}
	for _, key := range p.wait.Wants {
		var owners []string
		for _, h := range g.holders[key] {
			if !p.wait.Shared || !h.Shared {
				owners = append(owners, h.Owner)
			}
		}
		keepers = append(keepers, g.steps(p, than, key, owners...))
	}
	return keepers, p.wait.Some
}

// steps leads from p to what waits of the owners of the key: their sessions, calls that hold the key by them, and those in their
// transactions.
func (g *Graph) steps(p party, than *Wait, key driver.KeyID, owners ...string) (steps []Step) {
	for _, owner := range owners {
		if _, waits := g.blocked[owner]; waits {
			steps = append(steps, Step{p.wait, p.pid, key, party{pid: owner}})
		}
		for _, w := range slices.Concat(g.claims[Claim{key, owner}], g.txs[owner]) {
			if w == p.wait && !w.mayKeepItself() || than != nil && younger(w, than) < 0 {
				continue
			}
			steps = append(steps, Step{p.wait, p.pid, key, party{wait: w}})
		}
	}
	return steps
}

// mayKeepItself reports whether w may wait for what it holds itself: permits of a semaphore, or a lock that it holds shared, and
// wants shared again, with a writer of another process between. Its own process knows of all other cases.
func (w *Wait) mayKeepItself() bool { return w.Some > 0 || w.Shared && len(w.Wants) == 1 }
