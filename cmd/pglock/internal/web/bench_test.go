package web

import (
	"fmt"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/journal"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/monitor"
)

// crowd is a snapshot of 5,000 locks of 100 sessions with 40 waiters. Of the locks 250 differ from one round to the next.
func crowd(round int) *monitor.Snapshot {
	s := &monitor.Snapshot{TakenAt: noon.Add(time.Duration(round) * time.Second), ServerVersion: "15.18", Database: "shop"}
	began := noon.Add(-time.Hour)
	session := func(pid int, name string) monitor.Session {
		return monitor.Session{PID: int32(pid), Application: name, User: "app", Database: "shop", State: "idle", Since: &began,
			Query: "SELECT pg_advisory_unlock(4711), pg_advisory_lock(4712)"}
	}
	for i := range 5000 {
		number := int64(i)
		if i%20 == 1 {
			number = int64(i*1000 + round)
		}
		seen := noon.Add(time.Duration(i) * time.Millisecond)
		s.Locks = append(s.Locks, monitor.Lock{Key: fmt.Sprintf("@%d", number), Objsubid: 1, Number: number, Database: "shop", DatabaseOID: 5,
			Holders: []monitor.Holder{{Mode: monitor.ModeExclusive, SeenSince: &seen, Session: session(1000+i/50, fmt.Sprintf("worker-%d", i/50))}}})
	}
	for i := range 40 {
		since, lock := noon.Add(-time.Minute), &s.Locks[i%8*50]
		lock.Waiters = append(lock.Waiters, monitor.Waiter{Mode: monitor.ModeExclusive, WaitingSince: &since, Session: session(2000+i, fmt.Sprintf("waiter-%d", i)),
			BlockedBy: []monitor.Blocker{{PID: lock.Holders[0].PID, Kind: monitor.BlockHard}}})
	}
	return s
}

// BenchmarkAnswer measures what the answer to a page costs each second.
func BenchmarkAnswer(b *testing.B) {
	rounds := []*monitor.Snapshot{crowd(0), crowd(1), crowd(2), crowd(3)}
	var events []journal.Event
	j := journal.New()
	for _, s := range rounds {
		events = append(events, j.See(s)...)
	}
	live := Live{Events: events}
	s := &server{Options: Options{Live: func() Live { return live }, Clients: 3}, now: cache{answers: map[string]answer{}}}
	round := 0
	for b.Loop() {
		round++
		next := *rounds[round%len(rounds)]
		next.TakenAt = noon.Add(time.Duration(round) * time.Second)
		live.Snapshot = &next
		_, err := s.latest("")
		must.Succeed(b, err)
	}
}
