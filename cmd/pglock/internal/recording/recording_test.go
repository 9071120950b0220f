package recording

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/monitor"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// asJSON returns what a recording must keep of a snapshot: all but the ages and Capacity.Top.
func asJSON(t testing.TB, s *monitor.Snapshot) string {
	t.Helper()
	kept := *s
	kept.Capacity.Top = nil
	text, err := json.Marshal(kept)
	must.Succeed(t, err)
	for wait := range s.Waits() { // of a waiter's blockers the JSON form has only some
		blockers, err := json.Marshal([]monitor.Blocker(wait.BlockedBy))
		must.Succeed(t, err)
		text = append(append(text, '\n'), blockers...)
	}
	return string(text)
}

// newEncoder returns an encoder whose clock advances by a second with each snapshot.
func newEncoder(queries bool) *Encoder {
	e, elapsed := NewEncoder(queries), time.Duration(0)
	e.now = func() (time.Time, time.Duration) {
		elapsed += time.Second
		return noon.Add(time.Hour + elapsed), elapsed
	}
	return e
}

func encode(t testing.TB, e *Encoder, s *monitor.Snapshot) []byte {
	t.Helper()
	encoded, err := e.Snapshot(s, nil)
	must.Succeed(t, err)
	return encoded.Member
}

// other returns a member of lines that are not about a snapshot.
func other(t testing.TB, all ...any) []byte {
	t.Helper()
	var l lines
	for _, line := range all {
		l.add(line)
	}
	member, err := l.pack(mark{})
	must.Succeed(t, err)
	return member
}

func begun(t testing.TB) []byte {
	return other(t, startLine{kindStart, Version, About{Program: "test"}})
}

// record returns a recording and the snapshots in it.
func record(t testing.TB, seed uint64, n int) ([]byte, []*monitor.Snapshot) {
	t.Helper()
	return recordOf(t, newServer(seed, 20), n)
}

func recordOf(t testing.TB, s *server, n int) ([]byte, []*monitor.Snapshot) {
	t.Helper()
	e, file := newEncoder(true), begun(t)
	var snapshots []*monitor.Snapshot
	for range n {
		for range s.rng.IntN(len(s.sessions)) {
			s.change()
			s.touch()
		}
		snapshots = append(snapshots, s.snapshot())
		file = append(file, encode(t, e, snapshots[len(snapshots)-1])...)
	}
	return file, snapshots
}

// contents are what a file has.
type contents struct {
	snapshots []*monitor.Snapshot
	outages   []string
	damaged   error
}

// open returns a Past of a file with the given bytes.
func open(file []byte) (*Past, error) {
	past := &Past{}
	return past, past.read(bytes.NewReader(file), int64(len(file)), "locks.rec")
}

// readAll returns what a recording has.
func readAll(file []byte) (c contents, err error) {
	past, err := open(file)
	if err != nil {
		return c, err
	}
	for frame, err := range past.Play(time.Time{}) {
		switch {
		case err != nil:
			return c, err
		case frame.Outage != nil:
			c.outages = append(c.outages, frame.Outage.Reason)
		default:
			c.snapshots = append(c.snapshots, frame.Snapshot)
		}
	}
	c.damaged = past.Damaged()
	return c, nil
}

func wantSnapshots(t testing.TB, got, want []*monitor.Snapshot) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d snapshots, want %d", len(got), len(want))
	}
	for i := range got {
		if a, b := asJSON(t, got[i]), asJSON(t, want[i]); a != b {
			t.Fatalf("snapshot %d:\n%s\nwant\n%s", i, a, b)
		}
	}
}

func TestRecordingReadsBackWhatWasWritten(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2) {
		file, want := record(t, seed, 65)
		got, err := readAll(file)
		must.Succeed(t, err)
		wantSnapshots(t, got.snapshots, want)
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
	e, file := newEncoder(true), begun(t)
	for _, s := range []*monitor.Snapshot{one, two} {
		for i := range s.Locks {
			for k := range s.Locks[i].Holders {
				s.Locks[i].Holders[k].SeenSince, s.Locks[i].Holders[k].Code = nil, nil // computed by a journal
			}
			s.Locks[i].Waiters[0].Ahead, s.OtherWaits[0].Ahead = 0, 0 // computed from the blockers
		}
		file = append(file, encode(t, e, s)...)
	}
	got, err := readAll(file)
	must.Succeed(t, err)
	wantSnapshots(t, got.snapshots, []*monitor.Snapshot{one, two})
}

// The statements of all sessions are dropped, wherever a snapshot has sessions.
func TestRecordingDropsTheStatementsOfAllSessions(t *testing.T) {
	t.Parallel()
	s, n := &monitor.Snapshot{}, 0
	fill(reflect.ValueOf(s).Elem(), &n)
	got, err := readAll(append(begun(t), encode(t, newEncoder(false), s)...))
	must.Succeed(t, err)
	text, err := json.Marshal(got.snapshots[0])
	must.Succeed(t, err)
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
			if !v.Type().Field(i).IsExported() {
				continue
			}
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
	file, want := recordOf(t, newServer(1, 5), 3)
	last := 0
	for length := len(prefix); length <= len(file); length++ {
		got, err := readAll(file[:length])
		if err != nil || got.damaged != nil {
			t.Fatalf("the first %d of %d bytes: %v, %v", length, len(file), err, got.damaged)
		}
		if len(got.snapshots) < last {
			t.Fatalf("the first %d bytes have %d snapshots, fewer bytes had %d", length, len(got.snapshots), last)
		}
		last = len(got.snapshots)
	}
	if last != len(want) {
		t.Errorf("%d snapshots, want %d", last, len(want))
	}
	// A file can end with zeros after a crash of the machine.
	got, err := readAll(append(slices.Clone(file[:len(file)-100]), make([]byte, 200_000)...))
	if err != nil || len(got.snapshots) != len(want)-1 {
		t.Errorf("with zeros at the end: %d snapshots, %v", len(got.snapshots), err)
	}
}

// Whichever bit is wrong, it is noticed, and the snapshots from the next keyframe on are read. A few bits at the end of
// compressed data mean nothing.
func TestRecordingWithAWrongBitIsReadFromTheNextKeyframe(t *testing.T) {
	t.Parallel()
	first, want := recordOf(t, newServer(2, 5), 3)
	second, more := recordOf(t, newServer(3, 5), 2)
	want = append(want, more...)
	file := slices.Concat(first, second[len(begun(t)):])
	for at := len(begun(t)); at < len(first); at++ {
		damaged := slices.Clone(file)
		damaged[at] ^= 1 << (at % 8)
		got, err := readAll(damaged)
		must.Succeed(t, err)
		if got.damaged == nil && len(got.snapshots) == len(want) {
			wantSnapshots(t, got.snapshots, want)
			continue
		}
		if !errors.Is(got.damaged, ErrCorrupt) || len(got.outages) == 0 {
			t.Fatalf("byte %d was changed: damage %v, outages %q", at, got.damaged, got.outages)
		}
		n := len(got.snapshots)
		if n < len(more) || n >= len(want) {
			t.Fatalf("byte %d was changed: %d snapshots of %d", at, n, len(want))
		}
		wantSnapshots(t, got.snapshots[n-len(more):], more)
		wantSnapshots(t, got.snapshots[:n-len(more)], want[:n-len(more)])
	}
}

func TestRecordingRefusesOtherFiles(t *testing.T) {
	t.Parallel()
	for name, file := range map[string]string{"empty": "", "another": strings.Repeat("pg_dump", 9)} {
		if _, err := open([]byte(file)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	newer := other(t, startLine{kindStart, Version + 1, About{}})
	if _, err := open(newer); err == nil || errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "newer") {
		t.Errorf("a newer version: %v", err)
	}
}

// A later pglock may add kinds of lines and of members, and fields.
func TestRecordingSkipsWhatIsUnknown(t *testing.T) {
	t.Parallel()
	type unknown struct {
		Kind  string `json:"kind"`
		Later []int  `json:"later"`
	}
	_, want := record(t, 3, 3)
	e, file := newEncoder(true), begun(t)
	for _, s := range want {
		text := inflated(t, encode(t, e, s))
		text = append(text, `{"later":{"kind":"x"},"kind":"later","session":[1]}`+"\n"...)
		text = []byte(strings.ReplaceAll(string(text), `{"kind":"lock",`, `{"kind":"lock","later":[{}],`))
		kind := memberChange
		if s == want[0] {
			kind = memberKeyframe
		}
		member, err := pack(mark{Kind: kind}, text)
		must.Succeed(t, err)
		later, err := pack(mark{Kind: 99}, []byte("anything"))
		must.Succeed(t, err)
		file = slices.Concat(file, member, later, other(t, unknown{"later", nil}))
	}
	got, err := readAll(file)
	must.Succeed(t, err)
	wantSnapshots(t, got.snapshots, want)
}

func TestRecordingHasNoStatementsUnlessWanted(t *testing.T) {
	t.Parallel()
	s := newServer(1, 3)
	s.add()
	for i := range s.sessions {
		s.sessions[i].Query = "SELECT 'secret' /*action='pay',user='carla',route='%2Fa\\'b'*/"
	}
	snapshot := s.snapshot()
	for _, queries := range []bool{false, true} {
		got, err := readAll(append(begun(t), encode(t, newEncoder(queries), snapshot)...))
		must.Succeed(t, err)
		text := asJSON(t, got.snapshots[0])
		if strings.Contains(text, "secret") != queries || strings.Contains(text, "carla") != queries ||
			!strings.Contains(text, "action='pay'") {
			t.Errorf("with statements %v: %s", queries, text)
		}
		if session := got.snapshots[0].Locks[0].Holders[0].Session; slices.Contains(session.Hidden, "query") == queries {
			t.Errorf("with statements %v, hidden are %v", queries, session.Hidden)
		}
	}
}

func TestRecordingHasTheJumpsOfClocks(t *testing.T) {
	t.Parallel()
	wall, elapsed, at := noon, time.Duration(0), noon
	e := newEncoder(false)
	e.now = func() (time.Time, time.Duration) { return wall, elapsed }
	var jumps []string
	see := func(wallBy, serverBy time.Duration) {
		wall, at, elapsed = wall.Add(wallBy), at.Add(serverBy), elapsed+time.Second
		for line := range strings.Lines(string(inflated(t, encode(t, e, &monitor.Snapshot{TakenAt: at})))) {
			var j clockLine
			if kind, err := kindOf([]byte(line)); err != nil || kind != kindClock {
				continue
			}
			must.Succeed(t, json.Unmarshal([]byte(line), &j))
			jumps = append(jumps, fmt.Sprint(j.Clock, " ", j.Seconds))
		}
	}
	see(time.Second, time.Second)
	see(time.Second, time.Second)
	see(time.Hour, time.Second)
	see(time.Second, -time.Hour)
	see(time.Second, 2*time.Second) // as with a server that is slow once
	see(time.Second, time.Second)
	if want := []string{"recorder 3599", "server -3601"}; !slices.Equal(jumps, want) {
		t.Errorf("jumps %q, want %q", jumps, want)
	}
}

// Bytes that are not UTF-8 become escapes, and the lock stays the same. In the file itself nothing can be taken for a
// terminal's control sequence.
func TestRecordingKeepsTheTextsOfStrangers(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"\x1b]0;x\a":          "\x1b]0;x\a",
		"\u202eesrever":       "\u202eesrever",
		"\u009b31m\x7f":       "\u009b31m\x7f",
		"a\xffb\xc3":          `a\xffb\xc3`,
		"\U000e0001tag\u2028": "\U000e0001tag\u2028",
		`{"kind":"gone"}`:     `{"kind":"gone"}`,
		"a\r\nb":              "a\r\nb",
	} {
		s := newServer(1, 1)
		s.sessions[0].Application = text
		lock, err := plainLock("k", "shop", 1)
		must.Succeed(t, err)
		lock.Names, lock.Key = []string{text}, text
		lock.Holders = []monitor.Holder{{Mode: monitor.ModeExclusive, Session: s.sessions[0]}}
		s.locks[lock.Number] = lock
		member := encode(t, newEncoder(true), s.snapshot())
		for _, r := range string(inflated(t, member)) {
			if r != '\n' && (r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r == 0x202e) {
				t.Errorf("%q: the file has %q", text, r)
			}
		}
		got, err := readAll(append(begun(t), member...))
		must.Succeed(t, err)
		read := got.snapshots[0].Locks[0]
		if read.Number != lock.Number || read.Key != want || read.Holders[0].Application != want {
			t.Errorf("%q was read as %q, %q, %d", text, read.Key, read.Holders[0].Application, read.Number)
		}
	}
}

// A statement is recorded up to a length that a reader accepts.
func TestRecordingCutsLongStatements(t *testing.T) {
	t.Parallel()
	for _, query := range []string{strings.Repeat("\x01", 2<<20), strings.Repeat("é", 1<<20), "x" + strings.Repeat("é", 1<<20)} {
		s := newServer(1, 1)
		s.add()
		s.sessions[0].Query = query
		got, err := readAll(append(begun(t), encode(t, newEncoder(true), s.snapshot())...))
		must.Succeed(t, err)
		read := got.snapshots[0].Locks[0].Holders[0].Query
		if cut, ok := strings.CutSuffix(read, "…"); !ok || !strings.HasPrefix(query, cut) || len(cut) < maxQuery-1 {
			t.Errorf("%d bytes of %q… were read", len(read), query[:9])
		}
	}
}
