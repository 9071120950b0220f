package recording

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// asJSON returns what a recording must keep of a snapshot: all but the ages and Capacity.Top.
func asJSON(t testing.TB, s *monitor.Snapshot) string {
	t.Helper()
	kept := *s
	kept.Capacity.Top = nil
	text, err := json.Marshal(kept)
	check(t, err)
	return string(text)
}

func newEncoder(t testing.TB, opts ...EncoderOption) *Encoder {
	t.Helper()
	e, err := NewEncoder(opts...)
	check(t, err)
	return e
}

func TestANilEncoderOptionIsAnError(t *testing.T) {
	if e, err := NewEncoder(Queries(), nil); err == nil || e != nil {
		t.Errorf("NewEncoder returned %v, %v", e, err)
	}
}

// ticking returns a clock that advances by a second at each call.
func ticking() EncoderOption {
	elapsed := time.Duration(0)
	return withClock(func() (time.Time, time.Duration) {
		elapsed += time.Second
		return noon.Add(time.Hour + elapsed), elapsed
	})
}

func start() []byte {
	return appendJSON(append([]byte(magic), Version), TypeStart, About{Program: "test"})
}

// record returns a recording and the snapshots in it.
func record(t testing.TB, seed uint64, n int) ([]byte, []*monitor.Snapshot) {
	t.Helper()
	s, e := newServer(seed, 20), newEncoder(t, Queries(), ticking())
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
	return appendFrame(file, TypeEnd, nil), snapshots
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

// The test fails if a field is added to a snapshot but not to the format.
func TestRecordingKeepsEveryField(t *testing.T) {
	t.Parallel()
	one, two := &monitor.Snapshot{}, &monitor.Snapshot{}
	n := 0
	fill(reflect.ValueOf(one).Elem(), &n)
	n = 1000
	fill(reflect.ValueOf(two).Elem(), &n)
	e := newEncoder(t, Queries(), ticking())
	file := start()
	for _, s := range []*monitor.Snapshot{one, two} {
		for i := range s.Locks {
			for k := range s.Locks[i].Holders {
				s.Locks[i].Holders[k].SeenSince, s.Locks[i].Holders[k].Code = nil, nil // computed by a journal
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

// The statements of all sessions are dropped, wherever a snapshot has sessions.
func TestRecordingDropsTheStatementsOfAllSessions(t *testing.T) {
	t.Parallel()
	s, n := &monitor.Snapshot{}, 0
	fill(reflect.ValueOf(s).Elem(), &n)
	encoded, err := newEncoder(t, ticking()).Snapshot(s, nil)
	check(t, err)
	got, err := readAll(append(start(), encoded.Frame...))
	check(t, err)
	text, err := json.Marshal(got[0])
	check(t, err)
	if strings.Contains(string(text), "s3cret") || !strings.Contains(string(text), "action='pay'") {
		t.Errorf("it has a statement: %s", text)
	}
}

// fill gives every field a different value.
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
	// A file can end with zeros after a crash of the machine.
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
		encoded, err := newEncoder(t, opts...).Snapshot(snapshot, nil)
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
	e := newEncoder(t, withClock(func() (time.Time, time.Duration) { return wall, elapsed }))
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
	see(time.Second, 2*time.Second) // as with a server that is slow once
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

func TestKeysThatFollowFromTheirNamesAreTheSame(t *testing.T) {
	t.Parallel()
	lock, err := makeLock(lockName, []string{"@x"}, 0, 1, "shop")
	check(t, err)
	if lock.Key != "@@x" || lock.ID() != pglock.NewKey("@x").ID() {
		t.Errorf("%+v", lock)
	}
}
