// Package report summarises the waits in a recording: for each key their number and length, the blockers and the waiters.
package report

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/recording"
	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
)

// Report is the summary of a recording. Its JSON form has a version.
type Report struct {
	Version int       `json:"version"`
	From    time.Time `json:"from"`
	To      time.Time `json:"to"`
	// Snapshots is the number of snapshots, and Outages the number of gaps between them. Waits in a gap are missing.
	Snapshots int `json:"snapshots"`
	Outages   int `json:"outages"`
	// OtherWaits is how many sessions at most waited at one time for locks other than advisory locks. Keys has none of them.
	OtherWaits int `json:"most_other_waits"`
	// Keys are the contended keys, sorted by the total length of their waits.
	Keys []Key `json:"keys"`
}

// Key summarises the waits for one key. Times are in seconds.
type Key struct {
	Key         string `json:"key"`
	Database    string `json:"database"`
	DatabaseOID uint32 `json:"database_oid"`
	Waits       int    `json:"waits"`
	Open        int    `json:"open"` // waits that had not ended at the end of the report
	// Unseen is how many waits ended in a gap. Of them the time until the gap counts, so they lasted at least so long.
	Unseen int     `json:"waits_ended_in_gap"`
	Total  float64 `json:"total_seconds"`
	P50    float64 `json:"p50_seconds"`
	P95    float64 `json:"p95_seconds"`
	Max    float64 `json:"max_seconds"`
	// Holders are the sessions that blocked longest, summed over the waiters. Roots are those at the root of these waits: a
	// holder that waits itself is only the next victim. If a root holds another lock than the key, its name says which. Waiters
	// are those that waited longest.
	Holders []Share `json:"holders"`
	Roots   []Share `json:"roots"`
	Waiters []Share `json:"waiters"`
}

// Share is the part of a session in the total time.
type Share struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
}

// maxShares is how many holders and waiters are listed.
const maxShares = 5

type lockID struct {
	database uint32
	key      pglock.KeyID
}

// wait is one session's wait for one lock.
type wait struct {
	lock     lockID
	pid      int32
	name     string
	from, to time.Time
	open     bool
	unseen   bool // it ended in a gap
	unknown  bool // the server had not reported yet who waits
}

func (w *wait) length() time.Duration { return max(0, w.to.Sub(w.from)) }

// waiter identifies who waits for which lock, and since when in microseconds.
type waiter struct {
	lock lockID
	pid  int32
	from int64
}

func (w *wait) id() waiter { return waiter{w.lock, w.pid, w.from.UnixMicro()} }

// anyTime is the waiter whose wait may have begun at any time.
func (w *wait) anyTime() waiter { return waiter{w.lock, w.pid, 0} }

// maxWaits is the most waits of a report, which bounds what a recording from a stranger costs. Tests change it.
var maxWaits = 100_000

// collector collects the waits in snapshots.
type collector struct {
	report         *Report
	current        map[waiter]*wait // those of the last snapshot, also by anyTime
	waits          []*wait
	held, roots    map[lockID]map[string]time.Duration
	names          map[lockID]monitor.Lock
	sessions, seen map[int32]string // the names of sessions in the last snapshot, and in this one
	last           time.Time
	outage         bool
}

// errNothing is the error of a recording without snapshots in the given period.
var errNothing = errors.New("the recording has no snapshot in that period")

// Of summarises a recording between two times.
func Of(past *recording.Past, from, to time.Time) (*Report, error) {
	c := newCollector()
	for frame, err := range past.Play(from) {
		switch {
		case err != nil:
			return nil, err
		case frame.Outage != nil:
			c.outage = true
		case frame.Snapshot == nil || frame.Snapshot.TakenAt.Before(from):
		case frame.Snapshot.TakenAt.After(to):
			return c.end()
		default:
			c.addSnapshot(frame.Snapshot)
		}
		if len(c.waits) > maxWaits {
			return nil, fmt.Errorf("there are more than %d waits in the period: choose a shorter one with --since", maxWaits)
		}
	}
	return c.end()
}

func newCollector() *collector {
	return &collector{report: &Report{Version: 1, Keys: []Key{}}, current: map[waiter]*wait{}, seen: map[int32]string{},
		held: map[lockID]map[string]time.Duration{}, roots: map[lockID]map[string]time.Duration{}, names: map[lockID]monitor.Lock{}}
}

func (c *collector) addSnapshot(s *monitor.Snapshot) {
	r := c.report
	if r.Snapshots == 0 {
		r.From = s.TakenAt
	}
	r.Snapshots++
	if c.outage {
		r.Outages++
	}
	r.OtherWaits = max(r.OtherWaits, len(s.OtherWaits)+s.WaitsElsewhere)
	seen, tree := map[waiter]*wait{}, sync.OnceValue(s.Tree)
	for i := range s.Locks {
		lock := &s.Locks[i]
		at := lockID{lock.DatabaseOID, lock.ID()}
		for k := range lock.Holders {
			c.noteName(&lock.Holders[k].Session)
		}
		for k := range lock.Waiters {
			c.noteName(&lock.Waiters[k].Session)
			w := c.addWaiter(s, at, &lock.Waiters[k])
			seen[w.id()], seen[w.anyTime()] = w, w
		}
		if len(lock.Waiters) == 0 {
			continue
		}
		if known := c.names[at]; known.Key != lock.Key || known.Database != lock.Database {
			c.names[at] = monitor.Lock{Key: lock.Key, Database: lock.Database}
		}
		c.addBlockedTime(s, at, lock, tree)
	}
	for id, w := range c.current {
		if seen[id] == nil {
			w.open = false
			if w.unseen = c.outage; !c.outage {
				w.to = s.TakenAt // it ended between the two snapshots
			}
		}
	}
	c.current, c.last, c.outage = seen, s.TakenAt, false
	c.sessions, c.seen = c.seen, map[int32]string{}
	r.To = s.TakenAt
}

func (c *collector) addWaiter(s *monitor.Snapshot, at lockID, waiter *monitor.Waiter) *wait {
	began := s.TakenAt
	if waiter.WaitingSince != nil {
		began = *waiter.WaitingSince
	}
	w := &wait{lock: at, pid: waiter.PID, name: nameOf(&waiter.Session), from: began, to: s.TakenAt, open: true,
		unknown: slices.Contains(waiter.Hidden, "user")}
	known := c.current[w.id()]
	if known == nil && waiter.WaitingSince == nil {
		known = c.current[w.anyTime()]
	}
	if known != nil {
		known.to = s.TakenAt
		if known.unknown && !w.unknown {
			known.name, known.unknown = w.name, false
		}
		return known
	}
	c.waits = append(c.waits, w)
	return w
}

// addBlockedTime adds, for each waiter, the time since the last snapshot or since the start of its wait to the holders of
// the lock, and to the session at the root of the wait.
func (c *collector) addBlockedTime(s *monitor.Snapshot, at lockID, lock *monitor.Lock, tree func() *monitor.Tree) {
	if c.outage || len(lock.Waiters) == 0 {
		return // without a snapshot before, the holders in between are not known
	}
	if c.held[at] == nil {
		c.held[at], c.roots[at] = map[string]time.Duration{}, map[string]time.Duration{}
	}
	var waited time.Duration
	for i := range lock.Waiters {
		from := c.last
		if since := lock.Waiters[i].WaitingSince; since != nil && since.After(from) {
			from = *since
		}
		if !from.IsZero() {
			lasted := max(0, s.TakenAt.Sub(from))
			waited += lasted
			if root := rootName(tree().Node(lock.Waiters[i].ID()), lock); root != "" {
				c.roots[at][root] += lasted
			}
		}
	}
	names := map[string]bool{}
	for i := range lock.Holders {
		names[c.holderName(&lock.Holders[i].Session)] = true
	}
	for name := range names {
		c.held[at][name] += waited
	}
}

// rootName returns the name of the session at the root of a wait, with the lock that it holds if that is not the lock. It is
// empty if no session is known to block the waiter.
func rootName(n *monitor.Node, lock *monitor.Lock) string {
	if n == nil || n.Parent() == nil {
		return ""
	}
	for n.Parent().Parent() != nil {
		n = n.Parent()
	}
	name := nameOf(n.Blocker.Session)
	switch {
	case n.Wait.Other != nil && n.Wait.Other.Type == "transactionid":
		const transaction = "transaction" // they have different numbers
		return name + ", " + strings.Replace(n.Wait.Label(), transaction+" "+n.Wait.Other.Detail, transaction, 1)
	case n.Wait.Other != nil || n.Wait.Lock.ID() != lock.ID() || n.Wait.Lock.DatabaseOID != lock.DatabaseOID:
		return name + ", " + n.Wait.Label()
	}
	return name
}

// nameOf returns the name by which sessions are grouped: the application, or else the role.
func nameOf(s *monitor.Session) string {
	switch {
	case slices.Contains(s.Hidden, "user"):
		return "(unknown)"
	case s.PID == 0:
		return "prepared transactions of " + s.User
	case s.Application != "":
		return s.Application
	}
	return "(no application_name) " + s.User
}

// holderName is nameOf, but a session that ended while the snapshot was taken, so that nothing is known of it, has the name
// that it had in the snapshot before.
func (c *collector) holderName(s *monitor.Session) string {
	if name := c.sessions[s.PID]; name != "" && slices.Contains(s.Hidden, "user") {
		return name
	}
	return nameOf(s)
}

// noteName notes the name of a session for the next snapshot.
func (c *collector) noteName(s *monitor.Session) {
	if s.PID != 0 && !slices.Contains(s.Hidden, "user") {
		c.seen[s.PID] = nameOf(s)
	}
}

func (c *collector) end() (*Report, error) {
	if c.report.Snapshots == 0 {
		return nil, errNothing
	}
	byPlace := map[lockID][]*wait{}
	for _, w := range c.waits {
		byPlace[w.lock] = append(byPlace[w.lock], w)
	}
	for at, waits := range byPlace {
		c.report.Keys = append(c.report.Keys, c.key(at, waits))
	}
	slices.SortFunc(c.report.Keys, func(a, b Key) int {
		return cmp.Or(cmp.Compare(b.Total, a.Total), cmp.Compare(a.Database, b.Database), cmp.Compare(a.Key, b.Key))
	})
	return c.report, nil
}

func (c *collector) key(at lockID, waits []*wait) Key {
	k := Key{Key: c.names[at].Key, Database: c.names[at].Database, DatabaseOID: at.database, Waits: len(waits)}
	lengths, waiters := make([]float64, len(waits)), map[string]time.Duration{}
	for i, w := range waits {
		lengths[i] = w.length().Seconds()
		k.Total += lengths[i]
		waiters[w.name] += w.length()
		if w.open {
			k.Open++
		}
		if w.unseen {
			k.Unseen++
		}
	}
	slices.Sort(lengths)
	k.P50, k.P95, k.Max = rank(lengths, 50), rank(lengths, 95), lengths[len(lengths)-1]
	k.Holders, k.Roots, k.Waiters = shares(c.held[at]), shares(c.roots[at]), shares(waiters)
	return k
}

// rank returns the percentile: the smallest value that percent of the values do not exceed.
func rank(sorted []float64, percent int) float64 {
	return sorted[max(0, (len(sorted)*percent+99)/100-1)]
}

func shares(of map[string]time.Duration) []Share {
	all := []Share{}
	for name, d := range of {
		all = append(all, Share{name, d.Seconds()})
	}
	slices.SortFunc(all, func(a, b Share) int {
		return cmp.Or(cmp.Compare(b.Seconds, a.Seconds), cmp.Compare(a.Name, b.Name))
	})
	return all[:min(len(all), maxShares)]
}
