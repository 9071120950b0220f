package web

import (
	"cmp"
	"slices"
	"time"

	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/monitor/journal"
	"github.com/pglock-toolkit/pglock/pglock"
)

// Limits of what one answer has.
const (
	mostLocks   = 300
	mostParties = 50
	mostNodes   = 500
	mostEvents  = 200
	deepest     = 50
)

// state is what the page shows of a moment.
type state struct {
	At        time.Time `json:"at"`
	Target    string    `json:"target"`
	Version   string    `json:"version"`
	Lost      string    `json:"lost"`
	Locks     int       `json:"locks"`
	Holders   int       `json:"holders"`
	Waiters   int       `json:"waiters"`
	Longest   float64   `json:"longest_seconds"`
	Deadlocks []string  `json:"deadlocks"`
	Tree      []*node   `json:"tree"`
	Keys      []key     `json:"keys"`
	More      int       `json:"more"`
	Events    []event   `json:"events"`
}

// node is a session in the blocking tree, above those that it blocks.
type node struct {
	party
	// WaitsFor is the key that it waits for; empty for a root.
	WaitsFor string     `json:"waits_for"`
	Since    *time.Time `json:"waiting_since"`
	Soft     bool       `json:"soft"`
	Deadlock bool       `json:"deadlock"`
	Blocks   []*node    `json:"blocks"`
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
	// Key is how a link names it.
	Key      string  `json:"key"`
	Label    string  `json:"label"`
	Database string  `json:"database"`
	Holders  []party `json:"holders"`
	Held     int     `json:"held"`
	Waiting  int     `json:"waiting"`
	Longest  float64 `json:"longest_seconds"`
}

type event struct {
	At   time.Time `json:"at"`
	Kind string    `json:"kind"`
	Key  string    `json:"key"`
	Text string    `json:"text"`
}

func partyOf(s *monitor.Session, mode monitor.Mode) party {
	return party{PID: s.PID, GID: s.GID, Application: s.Application, User: s.User, State: s.State, Mode: string(mode)}
}

// newState makes what the page shows; with a key only what is about that.
func newState(live Live, target, only string) *state {
	s := live.Snapshot
	st := &state{Target: target, Deadlocks: []string{}, Tree: []*node{}, Keys: []key{}, Events: []event{}}
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
		st.Longest = max(st.Longest, longest(s, lock))
	}
	slices.SortStableFunc(shown, func(a, b *monitor.Lock) int { return cmp.Compare(len(b.Waiters), len(a.Waiters)) })
	st.More = max(0, len(shown)-mostLocks)
	for _, lock := range shown[:min(len(shown), mostLocks)] {
		st.Keys = append(st.Keys, keyOf(s, lock))
	}
	st.Tree = tree(s, shown)
	st.Events = eventsOf(live.Events, only)
	return st
}

// chosen are the locks of a key, or all. A key that cannot be parsed is compared as text.
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

func longest(s *monitor.Snapshot, lock *monitor.Lock) (seconds float64) {
	for i := range lock.Waiters {
		if since := lock.Waiters[i].WaitingSince; since != nil {
			seconds = max(seconds, s.TakenAt.Sub(*since).Seconds())
		}
	}
	return seconds
}

func keyOf(s *monitor.Snapshot, lock *monitor.Lock) key {
	k := key{Key: lock.Key, Label: lock.Label(), Database: lock.Database, Holders: []party{}, Held: len(lock.Holders),
		Waiting: len(lock.Waiters), Longest: longest(s, lock)}
	for i := range lock.Holders[:min(len(lock.Holders), mostParties)] {
		k.Holders = append(k.Holders, holderOf(&lock.Holders[i]))
	}
	return k
}

func holderOf(h *monitor.Holder) party {
	p := partyOf(&h.Session, h.Mode)
	p.SeenSince, p.Code = h.SeenSince, journal.CodeText(h.Code)
	return p
}

func eventsOf(events []journal.Event, only string) []event {
	shown := []event{}
	for _, e := range slices.Backward(events) {
		if only != "" && e.Key != only {
			continue
		}
		shown = append(shown, event{e.At, string(e.Kind), e.Key, e.String()})
		if len(shown) == mostEvents {
			break
		}
	}
	return shown
}
