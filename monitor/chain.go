package monitor

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/pglock-toolkit/pglock/internal/monitordb"
)

// OtherWait is a session that waits for a lock that is not an advisory one.
type OtherWait struct {
	// Lock is the lock that it waits for.
	Lock OtherLock `json:"lock"`
	Waiter
}

// chained is a row of pg_locks that is not an advisory lock, as the statement Locks returns it in
// JSON.
type chained struct {
	Owner  string `json:"owner"`
	Target string `json:"target"`

	LockType      string  `json:"locktype"`
	DatabaseOID   *int64  `json:"database_oid"`
	Database      *string `json:"database"`
	Relation      *int64  `json:"relation"`
	Page          *int32  `json:"page"`
	Tuple         *int16  `json:"tuple"`
	VirtualXID    *string `json:"virtualxid"`
	TransactionID *string `json:"transactionid"`
	ClassID       *int64  `json:"classid"`
	ObjectID      *int64  `json:"objid"`
	Objsubid      *int16  `json:"objsubid"`
	Schema        *string `json:"schema"`
	Name          *string `json:"name"`

	Mode         string     `json:"mode"`
	Granted      bool       `json:"granted"`
	WaitingSince *time.Time `json:"waiting_since"`
}

func (c chained) lock() OtherLock {
	return OtherLock{
		Type:          c.LockType,
		DatabaseOID:   uint32(value(c.DatabaseOID)),
		Database:      value(c.Database),
		Schema:        value(c.Schema),
		Name:          value(c.Name),
		Relation:      uint32(value(c.Relation)),
		Page:          c.Page,
		Tuple:         c.Tuple,
		VirtualXID:    value(c.VirtualXID),
		TransactionID: value(c.TransactionID),
		ClassID:       uint32(value(c.ClassID)),
		ObjectID:      uint32(value(c.ObjectID)),
		Objsubid:      value(c.Objsubid),
	}
}

func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// party is a session of the snapshot, with what the server told of it.
type party struct {
	Session
	advisory, wanted bool
}

// parties are the sessions and prepared transactions of the snapshot by their owner in the rows. A parallel worker is
// its leader: pg_blocking_pids names none but leaders.
type parties struct {
	byOwner map[string]*party
	leaders map[string]string
}

func newParties(t tables, found map[string]Session) parties {
	p := parties{map[string]*party{}, map[string]string{}}
	for i := range t.rows {
		row := &t.rows[i]
		if row.Owner == "" {
			continue
		}
		one := p.byOwner[row.Owner]
		if one == nil {
			one = &party{Session: found[row.Owner]}
			p.byOwner[row.Owner] = one
		}
		one.advisory = one.advisory || row.Mode.Valid
		one.wanted = one.wanted || row.Wanted
		if row.LeaderPid.Valid && row.LeaderPid.Int32 != row.Pid.Int32 {
			p.leaders[row.Owner] = fmt.Sprint(row.LeaderPid.Int32)
		}
	}
	return p
}

// of returns the session of an owner; nil if it is unknown.
func (p parties) of(owner string) *party {
	if leader := p.byOwner[p.leaders[owner]]; leader != nil {
		return leader
	}
	return p.byOwner[owner]
}

// knows reports whether a blocker that was named a moment later is a session of the snapshot.
func (p parties) knows(pid int32) bool { return p.byOwner[fmt.Sprint(pid)] != nil }

// otherWaits makes the waits for other locks, with the edges of the wait graph. It has more than the graph needs.
func otherWaits(t tables, all parties) ([]OtherWait, error) {
	if len(t.rows[0].Chained) == 0 {
		return []OtherWait{}, nil
	}
	var rows []chained
	if err := json.Unmarshal(t.rows[0].Chained, &rows); err != nil {
		return nil, fmt.Errorf("the server's list of other locks: %w", err)
	}
	holders := map[string][]Holder{}
	for _, row := range rows {
		if owner := all.of(row.Owner); row.Granted && owner != nil {
			holders[row.Target] = append(holders[row.Target], Holder{Mode: modeOf(row.Mode), Session: owner.Session})
		}
	}
	type waiting struct {
		target, owner string
	}
	pids := map[waiting][]int32{}
	for _, row := range t.blockers {
		if row.Target != "" {
			pids[waiting{row.Target, fmt.Sprint(row.Pid)}] = row.Blockers
		}
	}
	waits := []OtherWait{}
	for _, row := range rows {
		owner := all.of(row.Owner)
		if row.Granted || owner == nil {
			continue
		}
		w := OtherWait{Lock: row.lock(), Waiter: Waiter{Mode: modeOf(row.Mode), Session: owner.Session}}
		if row.WaitingSince != nil {
			utc := row.WaitingSince.UTC()
			w.WaitingSince = &utc
		}
		if t.server.VersionNumber < tellsWaits {
			w.estimateWait()
		}
		w.BlockedBy = all.blockers(w.Waiter, holders[row.Target], pids[waiting{row.Target, row.Owner}])
		waits = append(waits, w)
	}
	return merged(waits), nil
}

// merged puts the waits in order, those of a session together, and makes one of those of several workers for one lock.
func merged(waits []OtherWait) []OtherWait {
	slices.SortStableFunc(waits, func(a, b OtherWait) int {
		return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(a.Lock.String(), b.Lock.String()), compareWaiters(a.Waiter, b.Waiter))
	})
	return slices.CompactFunc(waits, func(a, b OtherWait) bool { return a.PID == b.PID && a.Lock.same(b.Lock) })
}

// inGraph returns the waits that are connected, in either direction and through any number of others, with a session
// that has advisory locks or is wanted, and all other sessions that take part or are wanted.
func inGraph(locks []Lock, waits []OtherWait, all parties) (kept []OtherWait, others []Session) {
	group := newGroups()
	for _, lock := range locks {
		for _, waiter := range lock.Waiters {
			group.connect(waiter)
		}
	}
	for _, wait := range waits {
		group.connect(wait.Waiter)
	}
	seeds := map[SessionID]bool{}
	for _, p := range all.byOwner {
		if p.advisory || p.wanted {
			seeds[group.of(p.ID())] = true
		}
	}
	taking := map[SessionID]bool{}
	kept = []OtherWait{}
	for _, wait := range waits {
		if !seeds[group.of(wait.ID())] {
			continue
		}
		kept = append(kept, wait)
		taking[wait.ID()] = true
		for _, blocker := range wait.BlockedBy {
			taking[blocker.ID()] = true
		}
	}
	others = []Session{}
	for _, p := range all.byOwner {
		if !p.advisory && (p.wanted || taking[p.ID()]) {
			others = append(others, p.Session)
		}
	}
	slices.SortFunc(others, func(a, b Session) int { return a.ID().Compare(b.ID()) })
	return kept, others
}

// groups are sessions that edges connect. Each session maps to the representative of its group.
type groups map[SessionID]SessionID

func newGroups() groups { return groups{} }

func (g groups) of(id SessionID) SessionID {
	for {
		next, ok := g[id]
		if !ok {
			return id
		}
		if after, ok := g[next]; ok {
			g[id] = after // shortens the path
		}
		id = next
	}
}

func (g groups) connect(waiter Waiter) {
	for _, blocker := range waiter.BlockedBy {
		if a, b := g.of(waiter.ID()), g.of(blocker.ID()); a != b {
			g[a] = b
		}
	}
}

// leaderOf is the process that a row's session works for; 0 for all but parallel workers.
func leaderOf(row monitordb.LocksRow) int32 {
	if row.LeaderPid.Valid && row.LeaderPid.Int32 != row.SessionPid.Int32 {
		return row.LeaderPid.Int32
	}
	return 0
}
