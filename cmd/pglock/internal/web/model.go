package web

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"time"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/journal"
	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
)

// Limits of one answer.
const (
	maxLocks  = 300
	maxNodes  = 500
	maxEvents = 200
)

// state is what the page shows: a head that is always sent, and lists of which only changes are sent. Ages are sent as
// start times, so that the lists do not change with time alone.
type state struct {
	head
	Tree   []node
	Keys   []key
	Events []event
}

type head struct {
	At        time.Time  `json:"at"`
	Target    string     `json:"target"`
	Version   string     `json:"version"`
	Lost      string     `json:"lost"`
	Locks     int        `json:"locks"`
	Holders   int        `json:"holders"`
	Waiters   int        `json:"waiters"`
	Others    int        `json:"other_waiters"`
	Elsewhere int        `json:"waits_elsewhere"`
	Longest   *time.Time `json:"longest_since"`
	Deadlocks []string   `json:"deadlocks"`
	// Numbers of items that were left out.
	MoreKeys     int `json:"more_keys"`
	MoreSessions int `json:"more_sessions"`
}

// node is a session in the blocking tree. Its parent is the last node before it whose depth is smaller by one.
type node struct {
	ID    string `json:"id"`
	Depth int    `json:"depth"`
	party
	// Wait is its wait, or nil for a root. Holds are its contended locks.
	Wait     *wait     `json:"wait"`
	Holds    *lockName `json:"holds"`
	Behind   int       `json:"behind"`
	Deadlock bool      `json:"deadlock"`
}

// wait says which session blocks another, for which lock.
type wait struct {
	Lock        lockName   `json:"lock"`
	Since       *time.Time `json:"since"`
	PID         int32      `json:"pid"`
	GID         string     `json:"gid"`
	Application string     `json:"application"`
	Soft        bool       `json:"soft"` // the blocker is ahead in the queue
	More        int        `json:"more"` // number of other blockers
}

// lockName is the name of a lock, for links and as text. Only advisory locks have a key.
type lockName struct {
	Key   string `json:"key"`
	Label string `json:"label"`
}

// party is a session as the page shows it.
type party struct {
	PID         int32      `json:"pid"`
	GID         string     `json:"gid"`
	Application string     `json:"application"`
	User        string     `json:"user"`
	State       string     `json:"state"`
	Mode        string     `json:"mode"`
	SeenSince   *time.Time `json:"seen_since"`
	Code        string     `json:"code"`
}

type key struct {
	ID string `json:"id"`
	lockName
	Database string `json:"database"`
	// Holder is the first of the Held holders, and Blocked says which session blocks it.
	Holder  *party     `json:"holder"`
	Blocked *wait      `json:"blocked"`
	Held    int        `json:"held"`
	Waiting int        `json:"waiting"`
	Longest *time.Time `json:"longest_since"`
}

type event struct {
	ID   string    `json:"id"`
	At   time.Time `json:"at"`
	Kind string    `json:"kind"`
	Key  string    `json:"key"`
	Text string    `json:"text"`
}

func idOf(id monitor.SessionID) string {
	if id.PID != 0 {
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

func partyOf(s *monitor.Session, mode monitor.Mode) party {
	return party{PID: s.PID, GID: s.GID, Application: s.Application, User: s.User, State: s.State, Mode: string(mode)}
}

// newState returns the state for the page. If only is not empty, the state is limited to that key.
func newState(live Live, target, only string) *state {
	s := live.Snapshot
	st := &state{head: head{Target: target, Deadlocks: []string{}}}
	if live.Lost != nil {
		st.Lost = live.Lost.Error()
	}
	if s == nil {
		return st
	}
	st.At, st.Version = s.TakenAt, s.ServerVersion
	for _, cycle := range s.Cycles {
		e := journal.Event{Kind: journal.Deadlock, Steps: cycle.Steps, Certain: cycle.Certain}
		st.Deadlocks = append(st.Deadlocks, e.String())
	}
	shown := chosen(s, only)
	for _, lock := range shown {
		st.Locks++
		st.Holders += len(lock.Holders)
		st.Waiters += len(lock.Waiters)
		st.Longest = earlier(st.Longest, longest(lock))
	}
	tree := newBlocking(s, shown, only == "")
	st.Tree, st.MoreSessions = tree.nodes()
	if only == "" {
		st.Others, st.Elsewhere = s.OtherWaiters(), s.WaitsElsewhere
	}
	slices.SortStableFunc(shown, func(a, b *monitor.Lock) int { return cmp.Compare(len(b.Waiters), len(a.Waiters)) })
	st.MoreKeys = max(0, len(shown)-maxLocks)
	for _, lock := range shown[:min(len(shown), maxLocks)] {
		st.Keys = append(st.Keys, tree.keyOf(lock))
	}
	st.Events = eventsOf(live.Events, only)
	return st
}

// chosen returns the locks with the key, or all. A key that cannot be parsed is compared as text.
func chosen(s *monitor.Snapshot, only string) []*monitor.Lock {
	parsed, err := pglock.ParseKey(only)
	var locks []*monitor.Lock
	for i := range s.Locks {
		lock := &s.Locks[i]
		if only == "" || lock.Key == only || err == nil && lock.ID() == parsed.ID() {
			locks = append(locks, lock)
		}
	}
	return locks
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

func (b blocking) keyOf(lock *monitor.Lock) key {
	k := key{ID: fmt.Sprintf("%d/%d/%d", lock.DatabaseOID, lock.Objsubid, lock.Number), lockName: lockName{lock.Key, lock.Label()},
		Database: lock.Database, Held: len(lock.Holders), Waiting: len(lock.Waiters), Longest: longest(lock)}
	if len(lock.Holders) == 0 {
		return k
	}
	first := holderOf(&lock.Holders[0])
	k.Holder = &first
	if n := b.Node(lock.Holders[0].ID()); n != nil && n.Wait != nil {
		k.Blocked = waitOf(n)
	}
	return k
}

func holderOf(h *monitor.Holder) party {
	p := partyOf(&h.Session, h.Mode)
	p.SeenSince, p.Code = h.SeenSince, journal.CodeText(h.Code)
	return p
}

func eventsOf(events []journal.Event, only string) []event {
	var shown []event
	seen := map[string]int{}
	for _, e := range slices.Backward(events) {
		if only != "" && e.Key != only {
			continue
		}
		one := event{At: e.At, Kind: string(e.Kind), Key: e.Key, Text: e.String()}
		one.ID = fmt.Sprintf("%d-%s", e.At.UnixMicro(), short(one.Text))
		if seen[one.ID]++; seen[one.ID] > 1 { // for example in another database
			one.ID = fmt.Sprintf("%s-%d", one.ID, seen[one.ID])
		}
		shown = append(shown, one)
		if len(shown) == maxEvents {
			break
		}
	}
	return shown
}
