// Package report summarises the waits in a recording: for each lock their number and length, the blockers and the waiters.
package report

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/recording"
	"github.com/pglock-toolkit/pglock/monitor"
)

// Report is the summary of a recording. Its JSON form has a version.
type Report struct {
	Version int       `json:"version"`
	From    time.Time `json:"from"`
	To      time.Time `json:"to"`
	// Snapshots is the number of snapshots, and Outages the number of gaps between them. Waits in a gap are missing.
	Snapshots int `json:"snapshots"`
	Outages   int `json:"outages"`
	// Keys are the locks that sessions waited for, of every type, sorted by the total length of the waits.
	Keys []Key `json:"keys"`
}

// Key summarises the waits for one lock. Times are in seconds.
type Key struct {
	// Key describes the lock as all faces of the monitor do, but a transaction without its number.
	Key      string `json:"key"`
	Database string `json:"database"`
	Waits    int    `json:"waits"`
	Open     int    `json:"open"` // waits that had not ended at the end of the report
	// Unseen is how many waits ended in a gap. Of them the time until the gap counts, so they lasted at least so long.
	Unseen int     `json:"waits_ended_in_gap"`
	Total  float64 `json:"total_seconds"`
	P50    float64 `json:"p50_seconds"`
	P95    float64 `json:"p95_seconds"`
	Max    float64 `json:"max_seconds"`
	// Blockers are the sessions that blocked longest, summed over the waiters, as holders or ahead in the queue. Roots are those
	// at the root of these waits: a blocker that waits itself is only the next victim. If a root holds another lock than the
	// key, its name says which. Waiters are those that waited longest.
	Blockers []Share `json:"blockers"`
	Roots    []Share `json:"roots"`
	Waiters  []Share `json:"waiters"`
}

// Share is the part of a session in the total time.
type Share struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
}

// maxShares is how many blockers and waiters are listed.
const maxShares = 5

// maxWaits is the most waits of a report, which bounds what a recording from a stranger costs. Tests change it.
var maxWaits = 100_000

// place is a lock, as it is described.
type place struct{ label, database string }

// waiting identifies a wait, by when it began in microseconds; 0 if the server had not reported that yet.
type waiting struct {
	place
	session monitor.SessionID
	from    int64
}

// wait is one session's wait for one lock.
type wait struct {
	name            string
	from, to        time.Time
	open, unseen    bool // unseen says that it ended in a gap
	blockers, roots map[string]time.Duration
}

// collector collects the waits in snapshots.
type collector struct {
	report  *Report
	current map[waiting]*wait // those of the last snapshot
	waits   map[place][]*wait
	count   int
	last    time.Time
	outage  bool
}

// errNothing is the error of a recording without snapshots in the given period.
var errNothing = errors.New("the recording has no snapshot in that period")

// Of summarises a recording between two times.
func Of(past *recording.Past, from, to time.Time) (*Report, error) {
	c := &collector{report: &Report{Version: 1, Keys: []Key{}}, waits: map[place][]*wait{}}
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
			c.add(frame.Snapshot)
		}
		if c.count > maxWaits {
			return nil, fmt.Errorf("there are more than %d waits in the period: choose a shorter one with --since", maxWaits)
		}
	}
	return c.end()
}

func (c *collector) add(s *monitor.Snapshot) {
	r := c.report
	if r.Snapshots++; r.Snapshots == 1 {
		r.From = s.TakenAt
	}
	if c.outage {
		r.Outages++
	}
	seen, still, tree := map[waiting]*wait{}, map[*wait]bool{}, s.Tree()
	for one := range s.Waits() {
		w := c.waitOf(s, one, seen)
		w.to, still[w] = s.TakenAt, true
		if n := tree.Node(one.ID()); n != nil && !c.outage { // without a snapshot before, the holders in between are not known
			w.addBlockers(n, s.TakenAt.Sub(latest(c.last, w.from)))
		}
	}
	for _, w := range c.current {
		if !still[w] {
			if w.open, w.unseen = false, c.outage; !c.outage {
				w.to = s.TakenAt // it ended between the two snapshots
			}
		}
	}
	c.current, c.last, c.outage, r.To = seen, s.TakenAt, false, s.TakenAt
}

// waitOf returns the wait, which may be known.
func (c *collector) waitOf(s *monitor.Snapshot, one monitor.Wait, seen map[waiting]*wait) *wait {
	id, name := waiting{place: placeOf(one), session: one.ID()}, nameOf(&one.Session)
	w, from := c.current[id], s.TakenAt // with an unknown beginning
	if one.WaitingSince != nil {
		from = *one.WaitingSince
		if id.from = from.UnixMicro(); c.current[id] != nil {
			w = c.current[id]
		}
	}
	if w == nil {
		w = &wait{name: name, from: from, open: true, blockers: map[string]time.Duration{}, roots: map[string]time.Duration{}}
		c.waits[id.place] = append(c.waits[id.place], w)
		c.count++
	}
	if w.name == unknownName {
		w.name = name
	}
	if one.WaitingSince != nil {
		w.from = from
	}
	seen[id] = w
	return w
}

// addBlockers adds a time to the session that blocks the wait, and to that at the root.
func (w *wait) addBlockers(n *monitor.Node, lasted time.Duration) {
	if n.Blocker == nil || lasted <= 0 {
		return
	}
	w.blockers[nameOf(n.Blocker.Session)] += lasted
	below := n
	for seen := 0; below.Blocker != nil && below.Blocker.Wait != nil && seen < maxShares*maxShares; seen++ { // a deadlock has no root
		below = below.Blocker
	}
	if below.Blocker == nil {
		return
	}
	name := nameOf(below.Blocker.Session)
	if label := placeOf(*below.Wait).label; label != placeOf(*n.Wait).label {
		name += ", " + label
	}
	w.roots[name] += lasted
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// placeOf describes the lock that is waited for. Transactions have different numbers, and rows different places.
func placeOf(w monitor.Wait) place {
	if w.Other == nil {
		return place{w.Label(), w.Lock.Database}
	}
	label := w.Label()
	if w.Other.Type == "transactionid" || w.Other.Type == "tuple" {
		label = strings.TrimSpace(strings.Replace(label, w.Other.Detail+" ", "", 1))
		label = strings.TrimSuffix(label, " "+w.Other.Detail)
	}
	return place{label, cmp.Or(w.Other.Database, w.Session.Database)}
}

const unknownName = "(unknown)"

// nameOf returns the name by which sessions are grouped: the application, or else the role.
func nameOf(s *monitor.Session) string {
	switch {
	case slices.Contains(s.Hidden, "user"):
		return unknownName
	case s.Prepared():
		return fmt.Sprintf("prepared transaction %q of %s", s.GID, s.User)
	case s.Application != "":
		return s.Application
	}
	return "(no application_name) " + s.User
}

func (c *collector) end() (*Report, error) {
	if c.report.Snapshots == 0 {
		return nil, errNothing
	}
	for at, waits := range c.waits {
		c.report.Keys = append(c.report.Keys, keyOf(at, waits))
	}
	slices.SortFunc(c.report.Keys, func(a, b Key) int {
		return cmp.Or(cmp.Compare(b.Total, a.Total), cmp.Compare(a.Database, b.Database), cmp.Compare(a.Key, b.Key))
	})
	return c.report, nil
}

func keyOf(at place, waits []*wait) Key {
	k := Key{Key: at.label, Database: at.database, Waits: len(waits)}
	lengths, waiters := make([]float64, len(waits)), map[string]time.Duration{}
	blockers, roots := map[string]time.Duration{}, map[string]time.Duration{}
	for i, w := range waits {
		lasted := max(0, w.to.Sub(w.from))
		lengths[i] = lasted.Seconds()
		k.Total += lengths[i]
		waiters[w.name] += lasted
		for name, d := range w.blockers {
			blockers[name] += d
		}
		for name, d := range w.roots {
			roots[name] += d
		}
		if w.open {
			k.Open++
		}
		if w.unseen {
			k.Unseen++
		}
	}
	slices.Sort(lengths)
	k.P50, k.P95, k.Max = rank(lengths, 50), rank(lengths, 95), lengths[len(lengths)-1]
	k.Blockers, k.Roots, k.Waiters = shares(blockers), shares(roots), shares(waiters)
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
