package recording

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// server makes snapshots of a server that changes at random.
type server struct {
	rng      *rand.Rand
	at       time.Time
	sessions []monitor.Session
	locks    map[int64]monitor.Lock
	next     int
}

func newServer(seed uint64, sessions int) *server {
	s := &server{rng: rand.New(rand.NewPCG(seed, 1)), at: noon, locks: map[int64]monitor.Lock{}}
	for i := range sessions {
		since := noon.Add(-time.Duration(i) * time.Minute)
		s.sessions = append(s.sessions, monitor.Session{PID: int32(1000 + i), User: "app", Database: "shop",
			Application: fmt.Sprintf("worker-%d", i), Client: "192.0.2.7:49152", State: "idle", Since: &since,
			StateSince: &since, Hidden: []string{}, Query: "SELECT 1"})
	}
	return s
}

func (s *server) any() monitor.Session { return s.sessions[s.rng.IntN(len(s.sessions))] }

// add adds a lock.
func (s *server) add() {
	s.next++
	key := pglock.Int64Key(s.rng.Int64())
	lock := monitor.Lock{Key: key.String(), Names: []string{}, Guesses: []string{}, Kind: "lock", Space: "bigint",
		Objsubid: 1, Number: key.ID().Number, DatabaseOID: 16384, Database: "shop"}
	lock.Holders = []monitor.Holder{{Mode: "exclusive", Session: s.any()}}
	lock.Waiters = []monitor.Waiter{}
	s.locks[lock.Number] = lock
}

// change makes a random change.
func (s *server) change() {
	numbers := slices.Sorted(maps.Keys(s.locks))
	if len(numbers) == 0 || s.rng.IntN(3) == 0 {
		s.add()
		return
	}
	number := numbers[s.rng.IntN(len(numbers))]
	lock := s.locks[number]
	switch s.rng.IntN(5) {
	case 0:
		delete(s.locks, number)
		return
	case 1:
		lock.Holders = []monitor.Holder{{Mode: "shared", Session: s.any()}, {Mode: "shared", Session: s.any()}}
	case 2:
		since := s.at
		lock.Waiters = append(slices.Clone(lock.Waiters), monitor.Waiter{Mode: "exclusive", WaitingSince: &since,
			Session: s.any(), BlockedBy: []monitor.Blocker{}})
	case 3:
		if len(lock.Waiters) > 0 {
			lock.Waiters = slices.Delete(slices.Clone(lock.Waiters), 0, 1)
		}
	case 4:
		lock.Guesses = []string{"possibly Rails"}
	}
	for i := range lock.Waiters {
		lock.Waiters[i].BlockedBy = []monitor.Blocker{{PID: lock.Holders[0].PID, Kind: "hard"}}
	}
	s.locks[number] = lock
}

// touch changes a session's state.
func (s *server) touch() {
	session := &s.sessions[s.rng.IntN(len(s.sessions))]
	at := s.at
	session.State, session.StateSince = []string{"active", "idle", "idle in transaction"}[s.rng.IntN(3)], &at
	session.Query = fmt.Sprintf("SELECT %d /*action='a%d'*/", s.rng.IntN(10), s.rng.IntN(3))
	if session.TransactionSince = nil; s.rng.IntN(2) == 0 {
		session.TransactionSince = &at
	}
}

// snapshot returns the present state, a second later.
func (s *server) snapshot() *monitor.Snapshot {
	s.at = s.at.Add(time.Second)
	now := map[int32]monitor.Session{}
	for _, session := range s.sessions {
		now[session.PID] = session
	}
	snapshot := &monitor.Snapshot{Version: 1, TakenAt: s.at, ServerVersion: "17.0", Database: "shop", Role: "dba",
		Capacity: monitor.Capacity{Nominal: 6400, Used: int64(len(s.locks)), Top: []monitor.SessionLoad{}},
		Cycles:   []monitor.Cycle{}, Locks: []monitor.Lock{}, OtherWaits: []monitor.OtherWait{}, OtherSessions: []monitor.Session{}}
	for _, lock := range s.locks {
		lock.Holders, lock.Waiters = slices.Clone(lock.Holders), slices.Clone(lock.Waiters)
		for i := range lock.Holders {
			lock.Holders[i].Session = now[lock.Holders[i].PID]
		}
		for i := range lock.Waiters {
			lock.Waiters[i].Session = now[lock.Waiters[i].PID]
		}
		snapshot.Locks = append(snapshot.Locks, lock)
	}
	slices.SortFunc(snapshot.Locks, func(a, b monitor.Lock) int { return a.ID().Compare(b.ID()) })
	if s.rng.IntN(3) == 0 {
		at := s.at
		process := monitor.Session{Lease: &monitor.Lease{Holder: "00112233445566aa", Host: "hü", Expires: &at}}
		snapshot.Locks = append(snapshot.Locks, monitor.Lock{Key: "@7", Names: []string{}, Guesses: []string{}, Kind: "lock",
			Space: "bigint", Number: 7, InRow: true,
			Holders: []monitor.Holder{{Mode: "exclusive", Generation: 3, SeenSince: &at, Session: process}},
			Waiters: slices.Repeat([]monitor.Waiter{{Mode: "shared", WaitingSince: &at, Session: process,
				BlockedBy: []monitor.Blocker{{Holder: process.Lease.Holder, Kind: "hard"}}}}, s.rng.IntN(3))})
	}
	return snapshot
}
