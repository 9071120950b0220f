package web

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/journal"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/internal/appname"
	"github.com/pglock-toolkit/pglock/internal/display"
	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
)

// Limits of one answer.
const (
	maxLocks    = 300
	maxNodes    = 500
	maxMembers  = 300 // of a fold
	maxQuery    = 600 // bytes of a statement
	maxNoteText = 500
)

// state is what the page shows. Ages are sent as start times, so that lists do not change with time alone.
type state struct {
	head
	Tag    string    `json:"tag"` // differs from that of another state
	Tree   []node    `json:"tree"`
	Keys   []key     `json:"keys"`
	Rows   []rowLock `json:"rows"`
	Events []event   `json:"events"`
}

type head struct {
	At      *time.Time `json:"at"` // nil before the first snapshot
	Target  string     `json:"target"`
	Version string     `json:"version"` // of the server
	Standby bool       `json:"standby"`
	Lost    string     `json:"lost"`
	// Headline is the action as one sentence. It is unknown while the server does not answer.
	Headline string `json:"headline"`
	// Commands carry the action out: first the one that loses least, then another that frees more. Statement is what the session that
	// it is about runs or ran last.
	Commands  []string `json:"commands"`
	Statement string   `json:"statement"`
	// Waiting is how many waits are shown; Expected more belong to normal work.
	Waiting   int        `json:"waiting"`
	Expected  int        `json:"expected"`
	Held      int        `json:"held"`
	Longest   *time.Time `json:"longest_since"`
	Deadlocks []string   `json:"deadlocks"`
	Notes     []string   `json:"notes"` // what the snapshot lacks, and why
	// Numbers of items that were left out.
	MoreKeys     int `json:"more_keys"`
	MoreRows     int `json:"more_rows"`
	MoreSessions int `json:"more_sessions"`
}

// lockName is the name of a lock, for links and as text. Only advisory locks and locks in rows have a key.
type lockName struct {
	Key   string `json:"key"`
	Label string `json:"label"`
}

// party is a session, a prepared transaction, or a process that uses locks in rows, as the page shows it.
type party struct {
	PID         int32  `json:"pid"`
	GID         string `json:"gid"`
	Holder      string `json:"holder"` // of a process
	Host        string `json:"host"`   // of a process
	Application string `json:"application"`
	User        string `json:"user"`
}

type key struct {
	ID string `json:"id"`
	lockName
	Database string `json:"database"`
	// Holder is the first of the Held holders, and Blocked says which session blocks it.
	Holder    *party     `json:"holder"`
	Mode      string     `json:"mode"`
	SeenSince *time.Time `json:"seen_since"`
	Code      string     `json:"code"`
	Blocked   *wait      `json:"blocked"`
	Held      int        `json:"held"`
	Waiting   int        `json:"waiting"`
	Longest   *time.Time `json:"longest_since"`
}

// rowLock is a lock in a row.
type rowLock struct {
	ID string `json:"id"`
	lockName
	// Holder is the first of the Held holders; the next fields are about it.
	Holder     *party     `json:"holder"`
	Mode       string     `json:"mode"`
	Since      *time.Time `json:"since"`
	Lease      *time.Time `json:"lease_until"`
	Generation string     `json:"generation"`
	Held       int        `json:"held"`
	Waiting    int        `json:"waiting"`
	Longest    *time.Time `json:"longest_since"`
}

func idOf(id monitor.SessionID) string {
	switch {
	case id.Holder != "":
		return "process-" + short(id.Holder)
	case id.PID != 0:
		return fmt.Sprint(id.PID)
	}
	return "prepared-" + short(id.GID)
}

// short makes an ID from text.
func short(text string) string {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(text)) // it never fails
	return strconv.FormatUint(sum.Sum64(), 36)
}

func partyOf(s *monitor.Session) party {
	application, _ := appname.Split(s.Application)
	p := party{PID: s.PID, GID: s.GID, Application: application, User: s.User}
	if l := s.Lease; l != nil {
		p.PID, p.Holder, p.Host = l.PID, l.Holder, l.Host
	}
	return p
}

func nodeParty(n *monitor.Node) party { return partyOf(n.Session) }

// encode returns what the page shows, as JSON.
func (s *server) encode(live Live, only string) ([]byte, error) {
	return json.Marshal(newState(live, s.Options, only))
}

func newState(live Live, about Options, only string) *state {
	h, locks, tree := newHead(live, about, only)
	st := &state{head: h, Tag: live.tag(), Tree: []node{}, Keys: []key{}, Rows: []rowLock{}, Events: []event{}}
	if live.Snapshot == nil {
		return st
	}
	st.Tree, st.MoreSessions = tree.rows(about.Flags)
	st.setLocks(locks, tree)
	st.Events = eventsOf(live.Events, only)
	return st
}

// newHead returns the head of a state, and what the rest of it is made from.
func newHead(live Live, about Options, only string) (h head, locks chosen, tree blocking) {
	s := live.Snapshot
	h = head{Target: about.Target, Deadlocks: []string{}, Commands: []string{}, Notes: []string{}}
	if live.Lost != nil {
		h.Lost = cut(oneLine(view.Cause(live.Lost, "it hangs or is out of reach")), maxNoteText)
	}
	if s == nil {
		return h, locks, tree
	}
	at := s.TakenAt.UTC()
	h.At, h.Version, h.Standby, h.Target = &at, s.ServerVersion, s.Server.InRecovery, view.TargetOf(about.Target, s)
	for _, cycle := range s.Cycles {
		e := journal.Event{Kind: journal.Deadlock, Steps: cycle.Steps, Certain: cycle.Certain}
		h.Deadlocks = append(h.Deadlocks, e.String())
	}
	for _, note := range []string{s.NamesMissing, s.DetailsHidden, s.BlockersMissing, s.RowLocksMissing, s.IdleRowsMissing} {
		if note != "" {
			h.Notes = append(h.Notes, cut(oneLine(note), maxNoteText))
		}
	}
	locks = newChosen(s, only)
	tree = newBlocking(s, locks)
	h.setAction(tree.action(s), about.Flags)
	h.Longest = tree.longest()
	return h, locks, tree
}

// setAction fills in what can be done, unless it may be over by now.
func (h *head) setAction(a monitor.Action, flags string) {
	h.Waiting, h.Expected, h.Held = a.Waiting, a.Expected, a.Held
	if h.Lost != "" {
		h.Headline = "Unknown since " + h.At.Format("15:04:05") + " UTC"
		return
	}
	h.Headline, h.Statement = a.String(), cut(view.StatementLine(a), maxQuery)
	for _, one := range []*monitor.Action{&a, a.Other} {
		if one != nil && one.Command(flags) != "" {
			h.Commands = append(h.Commands, view.EndCommand(*one, flags))
		}
	}
}

// setLocks fills in the keys and the locks in rows, those with the most waiters first.
func (st *state) setLocks(locks chosen, tree blocking) {
	slices.SortStableFunc(locks.locks, func(a, b *monitor.Lock) int { return len(b.Waiters) - len(a.Waiters) })
	st.MoreKeys = max(0, len(locks.locks)-maxLocks)
	for _, lock := range locks.locks[:min(len(locks.locks), maxLocks)] {
		st.Keys = append(st.Keys, tree.keyRow(lock))
	}
	slices.SortStableFunc(locks.rows, func(a, b *monitor.Lock) int { return len(b.Waiters) - len(a.Waiters) })
	st.MoreRows = max(0, len(locks.rows)-maxLocks)
	for _, lock := range locks.rows[:min(len(locks.rows), maxLocks)] {
		st.Rows = append(st.Rows, rowOf(lock))
	}
}

// chosen are the locks with a key, or all: advisory locks, and locks in rows.
type chosen struct {
	all         bool
	locks, rows []*monitor.Lock
}

// newChosen returns the locks with the key, or all. A key that cannot be parsed is compared as text.
func newChosen(s *monitor.Snapshot, only string) chosen {
	c := chosen{all: only == ""}
	parsed, err := pglock.ParseKey(only)
	for i := range s.Locks {
		lock := &s.Locks[i]
		switch {
		case !c.all && lock.Key != only && (err != nil || lock.ID() != parsed.ID()):
		case lock.InRow:
			c.rows = append(c.rows, lock)
		default:
			c.locks = append(c.locks, lock)
		}
	}
	return c
}

// has reports whether a lock is chosen. It may be a copy of the snapshot's.
func (c chosen) has(lock *monitor.Lock) bool {
	among := c.locks
	if lock.InRow {
		among = c.rows
	}
	return c.all || slices.ContainsFunc(among, func(other *monitor.Lock) bool {
		return other.ID() == lock.ID() && other.DatabaseOID == lock.DatabaseOID
	})
}

// longest returns the start of the longest wait for a lock, or nil if there is none or it is unknown.
func longest(lock *monitor.Lock) (since *time.Time) {
	for i := range lock.Waiters {
		since = earlier(since, lock.Waiters[i].WaitingSince)
	}
	return since
}

func earlier(a, b *time.Time) *time.Time {
	if a == nil || b != nil && b.Before(*a) {
		return b
	}
	return a
}

func (b blocking) keyRow(lock *monitor.Lock) key {
	k := key{ID: fmt.Sprintf("%d/%d/%d", lock.DatabaseOID, lock.Objsubid, lock.Number), lockName: lockName{lock.Key, lock.Label()},
		Database: lock.Database, Held: len(lock.Holders), Waiting: len(lock.Waiters), Longest: longest(lock)}
	if len(lock.Holders) == 0 {
		return k
	}
	first := &lock.Holders[0]
	holder := partyOf(&first.Session)
	k.Holder, k.Mode, k.SeenSince, k.Code = &holder, display.Mode(first.Mode), first.SeenSince, cut(first.Code, maxQuery)
	if n := b.tree.Node(first.ID()); n != nil && n.Wait != nil {
		k.Blocked = waitOf(n)
	}
	return k
}

func rowOf(lock *monitor.Lock) rowLock {
	r := rowLock{ID: fmt.Sprintf("row/%s/%d", lock.Space, lock.Number), lockName: lockName{lock.Key, strings.TrimSuffix(lock.Label(), " (row)")},
		Held: len(lock.Holders), Waiting: len(lock.Waiters), Longest: longest(lock)}
	if len(lock.Holders) > 0 {
		first := &lock.Holders[0]
		holder := partyOf(&first.Session)
		r.Holder, r.Mode, r.Since, r.Lease = &holder, display.Mode(first.Mode), first.SeenSince, first.Lease.Expires
		r.Generation = fmt.Sprint(first.Generation)
	}
	return r
}

// cut shortens a text to about n bytes, at a character's end.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + "…"
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
