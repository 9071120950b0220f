package recording

import (
	"fmt"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/monitor"
)

// steady makes snapshots of a server whose numbers of locks and sessions are constant.
type steady struct {
	*server
	snapshot []monitor.Lock
}

func newSteady(locks, sessions int) *steady {
	s := &steady{server: newServer(9, sessions)}
	for range locks {
		s.snapshot = append(s.snapshot, s.lock())
	}
	return s
}

// lock returns a new lock that a session holds.
func (s *steady) lock() monitor.Lock {
	s.next++
	lock, err := plainLock(fmt.Sprintf("invoice:%d", s.rng.IntN(1e9)), "shop", 16384)
	if err != nil {
		panic(err)
	}
	lock.Holders = []monitor.Holder{{Mode: monitor.ModeExclusive, Session: s.any()}}
	lock.Waiters = []monitor.Waiter{}
	return lock
}

// second makes the n changes of a second: they alternate between replacing a key and changing a holder, and each also
// changes a session's state.
func (s *steady) second(n int) *monitor.Snapshot {
	s.at = s.at.Add(time.Second)
	for i := range n {
		at := s.rng.IntN(len(s.snapshot))
		s.touch()
		if i%2 == 0 {
			s.snapshot[at] = s.lock()
		} else {
			s.snapshot[at].Holders = []monitor.Holder{{Mode: monitor.ModeExclusive, Session: s.any()}}
		}
	}
	locks := make([]monitor.Lock, len(s.snapshot))
	for i, lock := range s.snapshot {
		holder := lock.Holders[0]
		holder.Session = s.sessions[holder.PID-1000]
		lock.Holders = []monitor.Holder{holder}
		locks[i] = lock
	}
	return &monitor.Snapshot{Version: 1, TakenAt: s.at, ServerVersion: "17.0", Database: "shop", Role: "dba",
		Capacity: monitor.Capacity{Nominal: 6400, Used: int64(len(locks) + s.rng.IntN(9))}, Locks: locks}
}

// bytesPerHour estimates the size of an hour from a minute with two keyframes, which is a little too much.
func bytesPerHour(t testing.TB, s *steady, changes int, queries bool) int {
	t.Helper()
	e, size := newEncoder(queries), 0
	const seconds = 57
	for range seconds {
		size += len(encode(t, e, s.second(changes)))
	}
	return size * 3600 / seconds
}

// The figures are those of docs/recording.md.
func TestRecordingIsSmall(t *testing.T) {
	t.Parallel()
	const mega = 1 << 20
	for _, test := range []struct {
		name                     string
		locks, sessions, changes int
		most                     int
		queries                  bool
	}{
		{"quiet server", 20, 10, 0, mega, false},
		{"1,000 locks without changes", 1000, 100, 0, 4 * mega, false},
		{"1,000 locks, 50 changes a second, with statements", 1000, 100, 50, 10 * mega, true},
	} {
		size := bytesPerHour(t, newSteady(test.locks, test.sessions), test.changes, test.queries)
		perChange := ""
		if test.changes > 0 {
			perChange = fmt.Sprintf(", %.1f bytes per change", float64(size)/float64(3600*test.changes))
		}
		t.Logf("%s: %.2f MB an hour%s", test.name, float64(size)/mega, perChange)
		if size > test.most {
			t.Errorf("%s: %d bytes an hour, want at most %d", test.name, size, test.most)
		}
	}
}

// BenchmarkSnapshot measures recording a snapshot of 5,000 locks with 250 changes, and what an hour of them takes.
func BenchmarkSnapshot(b *testing.B) {
	s, e := newSteady(5000, 500), newEncoder(false)
	snapshots := make([]*monitor.Snapshot, 60)
	for i := range snapshots {
		snapshots[i] = s.second(250)
	}
	for i := 0; b.Loop(); i++ {
		encode(b, e, snapshots[i%len(snapshots)])
	}
	b.ReportMetric(float64(bytesPerHour(b, newSteady(5000, 500), 250, true))/(1<<20), "MB/hour")
}

// BenchmarkRead measures reading a minute back.
func BenchmarkRead(b *testing.B) {
	s, e, file := newSteady(5000, 500), newEncoder(false), begun(b)
	for range 60 {
		file = append(file, encode(b, e, s.second(250))...)
	}
	for b.Loop() {
		if _, err := readAll(file); err != nil {
			b.Fatal(err)
		}
	}
}
