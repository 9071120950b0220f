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

// otherRow is a row of pg_locks that is not an advisory lock, as the statement Locks returns it in JSON.
type otherRow struct {
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

const oldestSnapshot = "oldest snapshot"

func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// otherWaits returns the waits for other locks, with their blockers.
func otherWaits(t tables, all parties) ([]OtherWait, error) {
	if len(t.rows[0].Chained) == 0 {
		return []OtherWait{}, nil
	}
	var rows []otherRow
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
		w := OtherWait{Lock: row.lock(t.server.Database), Waiter: Waiter{Mode: modeOf(row.Mode), Session: owner.Session}}
		if row.WaitingSince != nil {
			utc := row.WaitingSince.UTC()
			w.WaitingSince = &utc
		}
		blockers := pids[waiting{row.Target, row.Owner}]
		if w.Lock.Type == oldestSnapshot { // PostgreSQL neither names blockers nor says since when
			blockers, w.Hidden = []int32{}, append(slices.Clone(w.Hidden), "waiting_since")
		}
		w.BlockedBy, w.Ahead = all.blockers(w.Waiter, holders[row.Target], blockers)
		if w.Lock.Type == "transactionid" || w.Lock.Type == "virtualxid" || w.Lock.Type == oldestSnapshot {
			w.Mode = "" // it waits for the end of a transaction, in a mode that would be taken for that of the row
		} else {
			setModes(w.BlockedBy, w.Mode, holders[row.Target])
		}
		waits = append(waits, w)
	}
	return mergeWaits(waits), nil
}

// setModes sets how the blockers of a wait hold its lock: in the strongest mode that conflicts with the one that is
// wanted.
func setModes(blockers []Blocker, wanted string, holders []Holder) {
	for i := range blockers {
		if blockers[i].Kind == blockHard {
			blockers[i].Mode = conflictingMode(holders, blockers[i].ID(), wanted)
		}
	}
}

// conflictingMode returns the strongest mode in which a session holds a lock, of those that conflict with another.
func conflictingMode(holders []Holder, id SessionID, wanted string) (strongest string) {
	for _, holder := range holders {
		if holder.ID() == id && conflict(holder.Mode, wanted) && slices.Index(modes, holder.Mode) > slices.Index(modes, strongest) {
			strongest = holder.Mode
		}
	}
	return strongest
}

// mergeWaits sorts the waits by session, and merges those of several workers for one lock.
func mergeWaits(waits []OtherWait) []OtherWait {
	slices.SortStableFunc(waits, func(a, b OtherWait) int {
		return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(a.Lock.String(), b.Lock.String()), compareWaiters(a.Waiter, b.Waiter))
	})
	return slices.CompactFunc(waits, func(a, b OtherWait) bool { return a.PID == b.PID && a.Lock == b.Lock })
}

// waitersOf returns the sessions that wait.
func waitersOf(waits []OtherWait) map[SessionID]bool {
	waiters := map[SessionID]bool{}
	for i := range waits {
		waiters[waits[i].ID()] = true
	}
	return waiters
}

// otherSessions returns the sessions that are part of these waits, or wanted, and have no advisory locks.
func otherSessions(waits []OtherWait, all parties) (others []Session) {
	part := map[SessionID]bool{}
	for _, wait := range waits {
		part[wait.ID()] = true
		for _, blocker := range wait.BlockedBy {
			part[blocker.ID()] = true
		}
	}
	others = []Session{}
	for _, p := range all.byOwner {
		if !p.advisory && (p.wanted || part[p.ID()]) {
			others = append(others, p.Session)
		}
	}
	slices.SortFunc(others, func(a, b Session) int { return a.ID().compare(b.ID()) })
	return others
}

// leaderOf returns the leader of a parallel worker, or 0 for other sessions.
func leaderOf(row monitordb.LocksRow) int32 {
	if row.LeaderPid.Valid && row.LeaderPid.Int32 != row.SessionPid.Int32 {
		return row.LeaderPid.Int32
	}
	return 0
}
