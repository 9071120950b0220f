package tui

import (
	"fmt"
	"maps"
	"strings"

	"github.com/pglock-toolkit/pglock/monitor"
)

// minGroup is the smallest number of keys that are folded into one row.
const minGroup = 10

// group identifies keys that are shown as one row: pairs by their class, and names by their prefix.
type group struct {
	database uint32
	class    int32  // of pairs
	prefix   string // of names, with its colon; empty for pairs
}

// groupOf returns the group of a lock. A contended lock has no group, so it is always shown.
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

// folded replaces the rows of each large group by one row. It leaves groups alone that the user has unfolded, and all
// groups if there is a filter.
func folded(q tableQuery, rows []row) []row {
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
		case !ok || len(locks) < minGroup:
			kept = append(kept, r)
		case !done[g]:
			done[g] = true
			kept = append(kept, g.row(locks))
		}
	}
	return kept
}

// row returns the row for a group. Its lock does not exist on the server: its holders are those of all the keys.
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
	return row{id: rowID{group: g}, lock: all, group: &g, longest: -1}
}

// unfold shows the keys of a group.
func (q tableQuery) unfold(g group) tableQuery {
	unfolded := maps.Clone(q.unfolded) // another command may read the old one
	if unfolded == nil {
		unfolded = map[group]bool{}
	}
	unfolded[g] = true
	q.unfolded = unfolded
	return q
}

// refold switches between showing all keys and folding all groups.
func (q tableQuery) refold() tableQuery {
	q.flat, q.unfolded = !q.flat && len(q.unfolded) == 0, nil
	return q
}
