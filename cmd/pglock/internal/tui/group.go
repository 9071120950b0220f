package tui

import (
	"fmt"
	"maps"
	"strings"

	"github.com/pglock-toolkit/pglock/monitor"
)

// foldFrom is the least number of keys that are folded into one row.
const foldFrom = 10

// group identifies keys that are shown as one row: by the class of pairs, or by the beginning of names.
type group struct {
	database uint32
	class    int32  // of pairs
	prefix   string // of names, with its colon; empty for pairs
}

// groupOf returns the group of a lock. A contended lock has none: it is always shown.
func groupOf(lock *monitor.Lock) (group, bool) {
	switch prefix, _, named := strings.Cut(lock.Key, ":"); {
	case len(lock.Waiters) > 0 || lock.Kind != "" && lock.Kind != monitor.KindLock:
		return group{}, false
	case lock.Space == monitor.SpacePair:
		return group{database: lock.DatabaseOID, class: lock.Class}, true
	case len(lock.Names) > 0 && named:
		return group{database: lock.DatabaseOID, prefix: prefix + ":"}, true
	}
	return group{}, false
}

func (g group) name() string {
	if g.prefix != "" {
		return g.prefix + "*"
	}
	return fmt.Sprintf("@%d/*", g.class)
}

// folded replaces the keys of each large group by one row, in the place of the first. Groups that the user has
// unfolded stay, and with a filter nothing is folded.
func folded(q question, rows []row) []row {
	if q.flat || q.filter != nil {
		return rows
	}
	members := map[group][]*monitor.Lock{}
	for _, r := range rows {
		if g, ok := groupOf(r.lock); ok && !q.unfolded[g] {
			members[g] = append(members[g], r.lock)
		}
	}
	kept, done := rows[:0:0], map[group]bool{}
	for _, r := range rows {
		g, ok := groupOf(r.lock)
		switch locks := members[g]; {
		case !ok || len(locks) < foldFrom:
			kept = append(kept, r)
		case !done[g]:
			done[g] = true
			kept = append(kept, g.row(locks))
		}
	}
	return kept
}

// row represents all keys of a group. Its lock does not exist on the server: it has the sessions that hold any of the
// keys.
func (g group) row(locks []*monitor.Lock) row {
	all := &monitor.Lock{
		Key: g.name() + " " + number(len(locks)) + " keys", Space: locks[0].Space, Objsubid: locks[0].Objsubid,
		DatabaseOID: g.database, Database: locks[0].Database,
	}
	seen := map[monitor.SessionID]bool{}
	for _, lock := range locks {
		for _, holder := range lock.Holders {
			if id := holder.Session.ID(); !seen[id] {
				seen[id] = true
				all.Holders = append(all.Holders, holder)
			}
		}
	}
	return row{id: identity{group: g}, lock: all, group: &g, longest: -1}
}

// unfold shows the keys of a group.
func (q question) unfold(g group) question {
	unfolded := maps.Clone(q.unfolded) // another command may read the old one
	if unfolded == nil {
		unfolded = map[group]bool{}
	}
	unfolded[g] = true
	q.unfolded = unfolded
	return q
}

// refold shows all keys, or all groups as one row each.
func (q question) refold() question {
	q.flat, q.unfolded = !q.flat && len(q.unfolded) == 0, nil
	return q
}
