package recording

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// asJSON is what a recording has to keep of a snapshot: the ages and the top of the lock table are those of a keyframe.
func asJSON(t testing.TB, s *monitor.Snapshot) string {
	t.Helper()
	kept := *s
	kept.Capacity.Top = nil
	text, err := json.Marshal(kept)
	check(t, err)
	return string(text)
}

// server invents snapshots of a server that changes at random.
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

// add holds a new key.
func (s *server) add() {
	s.next++
	lock, err := makeLock(lockName, []string{fmt.Sprintf("invoice:%d", 100000+s.next)}, 0, 16384, "shop")
	switch s.rng.IntN(3) {
	case 1:
		lock, err = makeLock(lockBigint, nil, s.rng.Int64(), 16384, "shop")
	case 2:
		lock, err = makeLock(lockPair, nil, s.rng.Int64(), 16384, "shop")
	}
	if err != nil {
		panic(err)
	}
	lock.Holders = []monitor.Holder{{Mode: monitor.Exclusive, Session: s.any()}}
	lock.Waiters = []monitor.Waiter{}
	s.locks[lock.Number] = lock
}

// change makes a random change.
func (s *server) change() {
	numbers := slices.Collect(func(yield func(int64) bool) {
		for n := range s.locks {
			if !yield(n) {
				return
			}
		}
	})
	slices.Sort(numbers)
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
		lock.Holders = []monitor.Holder{{Mode: monitor.Shared, Session: s.any()}, {Mode: monitor.Shared, Session: s.any()}}
	case 2:
		since := s.at
		lock.Waiters = append(slices.Clone(lock.Waiters), monitor.Waiter{Mode: monitor.Exclusive, WaitingSince: &since,
			Session: s.any(), BlockedBy: []monitor.Blocker{}})
	case 3:
		if len(lock.Waiters) > 0 {
			lock.Waiters = slices.Delete(slices.Clone(lock.Waiters), 0, 1)
		}
	case 4:
		lock.Guesses = []monitor.Guess{{Tool: "Rails", Text: "Rails \x1b[31m", Confidence: monitor.Possibly}}
	}
	for i := range lock.Waiters {
		derived, _ := derivedBlockers(lock.Holders, lock.Waiters, i)
		if s.rng.IntN(8) > 0 && derived != nil {
			lock.Waiters[i].BlockedBy = derived
		}
	}
	s.locks[number] = lock
}

// touch has a session do something.
func (s *server) touch() {
	session := &s.sessions[s.rng.IntN(len(s.sessions))]
	at := s.at
	session.State, session.StateSince = []string{"active", "idle", "idle in transaction"}[s.rng.IntN(3)], &at
	session.Query = fmt.Sprintf("SELECT %d /*action='a%d'*/", s.rng.IntN(10), s.rng.IntN(3))
	if session.TransactionSince = nil; s.rng.IntN(2) == 0 {
		session.TransactionSince = &at
	}
}

// snapshot is what there is, a second later.
func (s *server) snapshot() *monitor.Snapshot {
	s.at = s.at.Add(time.Second)
	now := map[int32]monitor.Session{}
	for _, session := range s.sessions {
		now[session.PID] = session
	}
	snapshot := &monitor.Snapshot{Version: 1, TakenAt: s.at, ServerVersion: "17.0", Database: "shop", Role: "dba",
		Capacity: monitor.Capacity{Nominal: 6400, Used: int64(len(s.locks)), Top: []monitor.SessionLoad{}},
		Cycles:   []monitor.Cycle{}, Locks: []monitor.Lock{}}
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
	return snapshot
}

// ticking is a clock that goes on by a second each time.
func ticking() EncoderOption {
	elapsed := time.Duration(0)
	return withClock(func() (time.Time, time.Duration) {
		elapsed += time.Second
		return noon.Add(time.Hour + elapsed), elapsed
	})
}

func start() []byte { return appendJSON(append([]byte(magic), Version), Start, About{Program: "test"}) }

// record returns a recording and the snapshots in it.
func record(t testing.TB, seed uint64, n int) ([]byte, []*monitor.Snapshot) {
	t.Helper()
	s, e := newServer(seed, 20), NewEncoder(Queries(), ticking())
	file := start()
	var snapshots []*monitor.Snapshot
	for range n {
		for range s.rng.IntN(20) {
			s.change()
			s.touch()
		}
		snapshot := s.snapshot()
		encoded, err := e.Snapshot(snapshot, nil)
		check(t, err)
		file = append(append(file, encoded.Before...), encoded.Frame...)
		snapshots = append(snapshots, snapshot)
	}
	return appendFrame(file, End, nil), snapshots
}

// readAll returns the snapshots of a recording.
func readAll(file []byte) (snapshots []*monitor.Snapshot, err error) {
	r, err := NewReader(bytes.NewReader(file))
	if err != nil {
		return nil, err
	}
	for {
		frame, err := r.Next()
		if err == io.EOF {
			return snapshots, nil
		}
		if err != nil {
			return snapshots, err
		}
		if frame.Snapshot != nil {
			snapshots = append(snapshots, frame.Snapshot)
		}
	}
}

func TestRecordingReadsBackWhatWasWritten(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		file, want := record(t, seed, 80)
		got, err := readAll(file)
		check(t, err)
		if len(got) != len(want) {
			t.Fatalf("seed %d: %d snapshots, want %d", seed, len(got), len(want))
		}
		for i := range got {
			if a, b := asJSON(t, got[i]), asJSON(t, want[i]); a != b {
				t.Fatalf("seed %d, snapshot %d:\n%s\nwant\n%s", seed, i, a, b)
			}
		}
	}
}

// A field that is added to a snapshot, and that the format forgets, shows here.
func TestRecordingKeepsEveryField(t *testing.T) {
	t.Parallel()
	one, two := &monitor.Snapshot{}, &monitor.Snapshot{}
	n := 0
	fill(reflect.ValueOf(one).Elem(), &n)
	n = 1000
	fill(reflect.ValueOf(two).Elem(), &n)
	e := NewEncoder(Queries(), ticking())
	file := start()
	for _, s := range []*monitor.Snapshot{one, two} {
		for i := range s.Locks {
			for k := range s.Locks[i].Holders {
				s.Locks[i].Holders[k].SeenSince, s.Locks[i].Holders[k].Code = nil, nil // a journal computes them
			}
		}
		encoded, err := e.Snapshot(s, nil)
		check(t, err)
		file = append(append(file, encoded.Before...), encoded.Frame...)
	}
	got, err := readAll(file)
	check(t, err)
	for i, want := range []*monitor.Snapshot{one, two} {
		if a, b := asJSON(t, got[i]), asJSON(t, want); a != b {
			t.Errorf("snapshot %d:\n%s\nwant\n%s", i, a, b)
		}
	}
}

// A session that is added to a snapshot anywhere must not bring its statement along.
func TestRecordingForgetsTheStatementsOfAllSessions(t *testing.T) {
	t.Parallel()
	s, n := &monitor.Snapshot{}, 0
	fill(reflect.ValueOf(s).Elem(), &n)
	encoded, err := NewEncoder(ticking()).Snapshot(s, nil)
	check(t, err)
	got, err := readAll(append(start(), encoded.Frame...))
	check(t, err)
	text, err := json.Marshal(got[0])
	check(t, err)
	if strings.Contains(string(text), "s3cret") || !strings.Contains(string(text), "action='pay'") {
		t.Errorf("it has a statement: %s", text)
	}
}

// fill gives every field a value of its own.
func fill(v reflect.Value, n *int) {
	*n++
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(noon.Add(time.Duration(*n) * time.Second)))
			return
		}
		for i := range v.NumField() {
			if fill(v.Field(i), n); v.Type().Field(i).Name == "Query" {
				v.Field(i).SetString("SELECT 's3cret' /*action='pay'*/")
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), n)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
	case reflect.String:
		v.SetString(fmt.Sprint("text ", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(float64(*n))
	case reflect.Int, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Uint32:
		v.SetUint(uint64(*n))
	default:
		panic(v.Kind())
	}
}

func TestRecordingIsReadableUpToAnyByte(t *testing.T) {
	t.Parallel()
	file, want := record(t, 1, 3)
	last := 0
	for length := len(magic) + 1; length <= len(file); length++ {
		got, err := readAll(file[:length])
		if err != nil {
			t.Fatalf("the first %d of %d bytes: %v", length, len(file), err)
		}
		if len(got) < last {
			t.Fatalf("the first %d bytes have %d snapshots, fewer bytes had %d", length, len(got), last)
		}
		last = len(got)
	}
	if last != len(want) {
		t.Errorf("%d snapshots, want %d", last, len(want))
	}
	// What a crash of the machine leaves can end with zeros.
	got, err := readAll(append(slices.Clone(file[:len(file)-100]), make([]byte, 5000)...))
	if err != nil || len(got) < len(want)-2 {
		t.Errorf("with zeros at the end: %d snapshots, %v", len(got), err)
	}
}

func TestRecordingWithAWrongByteIsCorrupt(t *testing.T) {
	t.Parallel()
	file, want := record(t, 2, 12)
	for at := len(magic) + 1; at < len(file)-frameHeader-1; at += 31 {
		damaged := slices.Clone(file)
		damaged[at] ^= 0x40
		got, err := readAll(damaged)
		if err == nil && len(got) == len(want) {
			t.Fatalf("byte %d was changed, without an error", at)
		}
		if err != nil && !errors.Is(err, ErrCorrupt) {
			t.Fatalf("byte %d: %v", at, err)
		}
	}
	for name, file := range map[string]string{"empty": "", "another": strings.Repeat("pg_dump", 9)} {
		if _, err := readAll([]byte(file)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	newer := slices.Clone(file)
	newer[len(magic)]++
	if _, err := readAll(newer); err == nil || errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "newer") {
		t.Errorf("a newer version: %v", err)
	}
}

func TestRecordingSkipsUnknownFrames(t *testing.T) {
	t.Parallel()
	file, want := record(t, 3, 3)
	unknown := appendFrame(nil, 99, []byte("from the future"))
	head := len(start())
	got, err := readAll(slices.Concat(file[:head], unknown, file[head:], unknown))
	if err != nil || len(got) != len(want) {
		t.Errorf("%d snapshots, %v", len(got), err)
	}
}

func TestRecordingHasNoStatementsUnlessWanted(t *testing.T) {
	t.Parallel()
	s := newServer(1, 3)
	s.add()
	for i := range s.sessions {
		s.sessions[i].Query = "SELECT 'secret' /*action='pay',user='carla',route='%2Fa\\'b'*/"
	}
	snapshot := s.snapshot()
	for i := range snapshot.Capacity.Top {
		snapshot.Capacity.Top[i].Query = "secret"
	}
	for _, queries := range []bool{false, true} {
		opts := []EncoderOption{ticking()}
		if queries {
			opts = append(opts, Queries())
		}
		encoded, err := NewEncoder(opts...).Snapshot(snapshot, nil)
		check(t, err)
		got, err := readAll(append(start(), encoded.Frame...))
		check(t, err)
		text := asJSON(t, got[0])
		if strings.Contains(text, "secret") != queries || strings.Contains(text, "carla") != queries ||
			!strings.Contains(text, "action='pay'") {
			t.Errorf("with statements %v: %s", queries, text)
		}
		if session := got[0].Locks[0].Holders[0].Session; slices.Contains(session.Hidden, "query") == queries {
			t.Errorf("with statements %v, hidden are %v", queries, session.Hidden)
		}
	}
}

func TestRecordingHasTheJumpsOfClocks(t *testing.T) {
	t.Parallel()
	wall, elapsed, at := noon, time.Duration(0), noon
	e := NewEncoder(withClock(func() (time.Time, time.Duration) { return wall, elapsed }))
	file := start()
	see := func(wallBy, serverBy time.Duration) {
		wall, at, elapsed = wall.Add(wallBy), at.Add(serverBy), elapsed+time.Second
		encoded, err := e.Snapshot(&monitor.Snapshot{TakenAt: at}, nil)
		check(t, err)
		file = append(append(file, encoded.Before...), encoded.Frame...)
	}
	see(time.Second, time.Second)
	see(time.Second, time.Second)
	see(time.Hour, time.Second)
	see(time.Second, -time.Hour)
	see(time.Second, 2*time.Second) // as of a server that is slow once
	see(time.Second, time.Second)
	r, err := NewReader(bytes.NewReader(file))
	check(t, err)
	var jumps []string
	for frame, err := r.Next(); err != io.EOF; frame, err = r.Next() {
		check(t, err)
		if j := frame.Jump; j != nil {
			jumps = append(jumps, fmt.Sprint(j.Clock, " ", j.Seconds))
		}
	}
	if want := []string{"recorder 3599", "server -3601"}; !slices.Equal(jumps, want) {
		t.Errorf("jumps %q, want %q", jumps, want)
	}
}

func TestWriterRotatesAndKeepsTheNewest(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "locks.rec")
	w, err := NewWriter(path, WriterOptions{MaxSize: 2000, Keep: 3})
	check(t, err)
	s, e := newServer(1, 20), NewEncoder(ticking())
	for range 100 {
		s.change()
		check(t, w.Record(e, s.snapshot(), nil))
	}
	check(t, w.Outage("no route to host"))
	check(t, w.Close())
	files, err := Files(path)
	check(t, err)
	if len(files) != 4 || files[3] != path {
		t.Fatalf("files %q", files)
	}
	last := time.Time{}
	for _, file := range files {
		info, err := os.Lstat(file)
		check(t, err)
		if info.Mode().Perm() != 0o600 && os.PathSeparator == '/' {
			t.Errorf("%s has the mode %v", file, info.Mode())
		}
		text, err := os.ReadFile(file)
		check(t, err)
		got, err := readAll(text)
		check(t, err)
		for _, s := range got {
			if !s.TakenAt.After(last) {
				t.Errorf("%s: the snapshot of %v is out of order", file, s.TakenAt)
			}
			last = s.TakenAt
		}
	}
	past, err := OpenPast(files...)
	check(t, err)
	defer func() { check(t, past.Close()) }()
	first, end, ok := past.Bounds()
	if !ok || !end.Equal(s.at) || !first.Before(end) {
		t.Errorf("bounds %v, %v, %v", first, end, ok)
	}
	at, err := past.At(end.Add(-3 * time.Second))
	if err != nil || !at.TakenAt.Equal(end.Add(-3*time.Second)) {
		t.Errorf("three seconds before %v: %v, %v", end, at.TakenAt, err)
	}
}

func TestWriterDoesNotFollowLinks(t *testing.T) {
	t.Parallel()
	if os.PathSeparator != '/' {
		t.Log("links need rights here")
		return
	}
	directory := t.TempDir()
	target, path := filepath.Join(directory, "precious"), filepath.Join(directory, "locks.rec")
	check(t, os.WriteFile(target, []byte("precious"), 0o600))
	check(t, os.Symlink(target, path))
	if _, err := NewWriter(path, WriterOptions{}); !errors.Is(err, errNotRegular) {
		t.Errorf("with a link in its place: %v", err)
	}
	if text, err := os.ReadFile(target); err != nil || string(text) != "precious" {
		t.Errorf("the target is now %q, %v", text, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	check(t, os.WriteFile(path, []byte("of before"), 0o644))
	w, err := NewWriter(path, WriterOptions{})
	check(t, err)
	check(t, w.Close())
	rotated, err := rotatedFiles(path)
	if err != nil || len(rotated) != 1 {
		t.Errorf("the file of before: %q, %v", rotated, err)
	}
}

func FuzzReader(f *testing.F) {
	file, _ := record(f, 4, 5)
	f.Add(file)
	f.Add(file[:len(file)/2])
	f.Add(start())
	f.Fuzz(func(t *testing.T, file []byte) {
		got, err := readAll(file)
		if err == nil && len(got) > len(file) {
			t.Errorf("%d snapshots of %d bytes", len(got), len(file))
		}
	})
}

// FuzzBody has the checksums right, so that what is behind them is reached.
func FuzzBody(f *testing.F) {
	s, state := newServer(5, 5), newState(true)
	for range 30 {
		s.change()
	}
	body, err := state.encode(s.snapshot(), Info{Type: Key, At: noon})
	check(f, err)
	s.change()
	next, err := state.encode(s.snapshot(), Info{Type: Delta, At: noon})
	check(f, err)
	f.Add(body, next)
	f.Fuzz(func(t *testing.T, key, delta []byte) {
		file := start()
		e := NewEncoder()
		for kind, body := range [][]byte{key, delta} {
			payload, err := e.compressed(Info{At: noon, Wall: noon}, body)
			if err != nil {
				return // larger than a body can be
			}
			file = appendFrame(file, Key+Type(kind), payload)
		}
		if _, err := readAll(file); err != nil && !errors.Is(err, ErrCorrupt) {
			t.Error(err)
		}
	})
}

func TestKeysThatFollowFromTheirNamesAreTheSame(t *testing.T) {
	t.Parallel()
	lock, err := makeLock(lockName, []string{"@x"}, 0, 1, "shop")
	check(t, err)
	if lock.Key != "@@x" || lock.ID() != pglock.NewKey("@x").ID() {
		t.Errorf("%+v", lock)
	}
}
