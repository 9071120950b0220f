package tui

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pglock-toolkit/pglock/monitor"
)

// minGroup is the smallest number of keys that are folded into one row.
const minGroup = 10

// group identifies keys that are shown as one row: pairs by their class, and names by their prefix.
type group struct {
	database uint32
	inRow    bool
	class    int32  // of pairs
	prefix   string // of names, with its colon; empty for pairs
}

// groupOf returns the group of a lock. A contended lock has no group, so it is always shown.
func groupOf(k keyInfo) (group, bool) {
	if k.inRow != nil {
		l := k.inRow
		return newGroup(k, group{inRow: true, class: l.Class}, l.Key, l.Name != "", l.Space, l.Kind)
	}
	l := k.lock
	return newGroup(k, group{database: l.DatabaseOID, class: l.Class}, l.Key, len(l.Names) > 0, l.Space, l.Kind)
}

func newGroup(k keyInfo, g group, key string, registered bool, space monitor.Space, kind monitor.LockKind) (group, bool) {
	switch prefix, _, named := strings.Cut(key, ":"); {
	case k.waiterCount() > 0 || kind != "" && kind != monitor.KindLock:
		return group{}, false
	case space == monitor.SpacePair:
		return g, true
	case registered && named:
		g.class, g.prefix = 0, prefix+":"
		return g, true
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
	members := map[group][]keyInfo{}
	for _, r := range rows {
		if g, ok := groupOf(r.keyInfo); ok {
			members[g] = append(members[g], r.keyInfo)
		}
	}
	kept, done := rows[:0:0], map[group]bool{}
	for _, r := range rows {
		g, ok := groupOf(r.keyInfo)
		id := rowID{server: r.id.server, group: g}
		switch keys := members[g]; {
		case !ok || len(keys) < minGroup:
			kept = append(kept, r)
		case q.toggled[id]:
			r.within = &id
			kept = append(kept, r)
		case !done[g]:
			done[g] = true
			kept = append(kept, row{id: id, keyInfo: g.all(keys), group: &g, longest: -1})
		}
	}
	return kept
}

// all returns a lock that does not exist on the server: its holders are those of all the keys.
func (g group) all(keys []keyInfo) keyInfo {
	text := g.name() + " " + number(len(keys)) + " keys"
	if first := keys[0].inRow; first != nil {
		all := &monitor.RowLock{Key: text, Space: first.Space}
		for _, k := range keys {
			for _, h := range k.inRow.Holders {
				if !slices.ContainsFunc(all.Holders, func(other monitor.RowHolder) bool { return other.Holder == h.Holder }) {
					all.Holders = append(all.Holders, h)
				}
			}
		}
		return keyInfo{inRow: all}
	}
	first := keys[0].lock
	all := &monitor.Lock{Key: text, Space: first.Space, Objsubid: first.Objsubid, DatabaseOID: g.database, Database: first.Database}
	seen := map[monitor.SessionID]bool{}
	for _, k := range keys {
		for _, holder := range k.lock.Holders {
			if id := holder.Session.ID(); !seen[id] {
				seen[id] = true
				all.Holders = append(all.Holders, holder)
			}
		}
	}
	return keyInfo{lock: all}
}
