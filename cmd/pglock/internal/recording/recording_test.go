package recording

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/monitor"
)

func asJSON(t testing.TB, s *monitor.Snapshot) string {
	t.Helper()
	text, err := json.Marshal(s)
	must.Succeed(t, err)
	return string(text)
}

func line(t testing.TB, s *monitor.Snapshot, queries bool) Line {
	t.Helper()
	l, err := Encode(s, nil, queries)
	must.Succeed(t, err)
	return l
}

const large = 1 << 30

// record returns the path of a recording and the snapshots in it.
func record(t testing.TB, seed uint64, n int) (string, []*monitor.Snapshot) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "locks.rec")
	w, err := NewWriter(path, WriterOptions{MaxSize: large, About: About{Interval: 1}})
	must.Succeed(t, err)
	s := newServer(seed, 20)
	var snapshots []*monitor.Snapshot
	for range n {
		for range s.rng.IntN(len(s.sessions)) {
			s.change()
			s.touch()
		}
		snapshots = append(snapshots, s.snapshot())
		must.Succeed(t, w.Add(line(t, snapshots[len(snapshots)-1], true)))
	}
	must.Succeed(t, w.Close())
	return path, snapshots
}

// contents are what a recording has.
type contents struct {
	snapshots []*monitor.Snapshot
	outages   []string
	damaged   error
}

func readFrom(past *Past, from time.Time) (c contents, err error) {
	for frame, err := range past.Play(from) {
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

func readAll(paths ...string) (c contents, err error) {
	past, err := OpenPast(paths...)
	if err != nil {
		return c, err
	}
	return readFrom(past, time.Time{})
}

// fileOf writes compressed lines to a file.
func fileOf(t testing.TB, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "locks.rec")
	c, err := newCompressor(0)
	must.Succeed(t, err)
	text, err := c.add([]byte(strings.Join(lines, "")))
	must.Succeed(t, err)
	must.Succeed(t, os.WriteFile(path, text, 0o600))
	return path
}

const head = `{"recording":1,"interval_seconds":1}` + "\n"

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
	path, want := record(t, 1, 25)
	got, err := readAll(path)
	must.Succeed(t, err)
	wantSnapshots(t, got.snapshots, want)
	past, err := OpenPast(path)
	must.Succeed(t, err)
	if first, last, ok := past.Bounds(); !ok || !first.Equal(want[0].TakenAt) || !last.Equal(want[24].TakenAt) {
		t.Errorf("bounds %v, %v, %v", first, last, ok)
	}
	for after, first := range map[time.Duration]int{-time.Hour: 0, 10*time.Second + 1: 10, time.Hour: 24} {
		got, err := readFrom(past, want[0].TakenAt.Add(after))
		must.Succeed(t, err)
		wantSnapshots(t, got.snapshots, want[first:])
	}
}

// Every field is recorded, but the statements of all sessions only if they are wanted.
func TestRecordingKeepsEveryFieldButStatements(t *testing.T) {
	t.Parallel()
	s, n := &monitor.Snapshot{}, 0
	fill(reflect.ValueOf(s).Elem(), &n)
	s.Version = monitor.FormatVersion
	got, err := readAll(fileOf(t, head, string(line(t, s, true).text)))
	must.Succeed(t, err)
	wantSnapshots(t, got.snapshots, []*monitor.Snapshot{s})
	got, err = readAll(fileOf(t, head, string(line(t, s, false).text)))
	must.Succeed(t, err)
	if text := asJSON(t, got.snapshots[0]); strings.Contains(text, "s3cret") {
		t.Errorf("it has a statement: %s", text)
	}
	if holder := got.snapshots[0].Locks[0].Holders[0]; !slices.Contains(holder.Hidden, "query") {
		t.Errorf("hidden are %v", holder.Hidden)
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
				v.Field(i).SetString("SELECT 's3cret'")
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

// The recorder may be killed at any time, while it writes too.
func TestRecordingIsReadableUpToAnyByte(t *testing.T) {
	t.Parallel()
	path, want := record(t, 1, 3)
	text, err := os.ReadFile(path)
	must.Succeed(t, err)
	cut, last := filepath.Join(t.TempDir(), "cut.rec"), 0
	for length := 200; length <= len(text); length += 1 + length%31 {
		must.Succeed(t, os.WriteFile(cut, text[:length], 0o600))
		got, err := readAll(cut)
		if err != nil || got.damaged != nil || len(got.snapshots) < last {
			t.Fatalf("the first %d of %d bytes: %d snapshots after %d, %v, %v", length, len(text), len(got.snapshots), last, err, got.damaged)
		}
		last = len(got.snapshots)
	}
	if got, err := readAll(path); err != nil || len(got.snapshots) != len(want) || last == 0 {
		t.Errorf("%d snapshots, want %d", len(got.snapshots), len(want))
	}
}

func TestRecordingRefusesOtherFiles(t *testing.T) {
	t.Parallel()
	plain := filepath.Join(t.TempDir(), "plain")
	must.Succeed(t, os.WriteFile(plain, []byte(strings.Repeat("pg_dump", 9)), 0o600))
	for name, path := range map[string]string{"another": plain, "empty": fileOf(t), "no head": fileOf(t, "{}\n"), "no JSON": fileOf(t, "x\n")} {
		if _, err := OpenPast(path); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := OpenPast(fileOf(t, `{"recording":2}`+"\n")); err == nil || errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "newer") {
		t.Errorf("a newer version: %v", err)
	}
}

// Wrong bytes are noticed, at the latest at the end of the file, and the next file is read.
func TestRecordingWithWrongBytesIsReadUpToThem(t *testing.T) {
	t.Parallel()
	path, want := record(t, 2, 20)
	text, err := os.ReadFile(path)
	must.Succeed(t, err)
	next, more := record(t, 3, 2)
	damaged := filepath.Join(t.TempDir(), "damaged.rec")
	for at := 300; at < len(text); at += 1009 {
		wrong := bytes.Clone(text)
		wrong[at] ^= 0x55
		must.Succeed(t, os.WriteFile(damaged, wrong, 0o600))
		got, err := readAll(damaged, next)
		must.Succeed(t, err)
		if n := len(got.snapshots) - len(more); got.damaged == nil {
			wantSnapshots(t, got.snapshots[:n], want[:n])
		}
		wantSnapshots(t, got.snapshots[len(got.snapshots)-len(more):], more)
	}
}

// A reader fills in the time between two recorders. Within one recording a new file is no gap.
func TestRecordingHasOutages(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "locks.rec")
	s := newServer(1, 1)
	for i, pause := range []time.Duration{0, time.Second, time.Minute} {
		w, err := NewWriter(path, WriterOptions{MaxSize: large, About: About{Interval: 1}})
		must.Succeed(t, err)
		s.at = s.at.Add(pause)
		must.Succeed(t, w.Add(line(t, s.snapshot(), true)))
		if i == 0 {
			must.Succeed(t, w.Outage("no route to host"))
			must.Succeed(t, w.Add(line(t, s.snapshot(), true)))
		}
		must.Succeed(t, w.Close())
	}
	files, err := Files(path)
	must.Succeed(t, err)
	got, err := readAll(files...)
	must.Succeed(t, err)
	if want := []string{"no route to host", "nothing was recorded for 1m01s"}; len(got.snapshots) != 4 || !slices.Equal(got.outages, want) {
		t.Errorf("%d snapshots, outages %q", len(got.snapshots), got.outages)
	}
}

// In memory a recording is what it is in files, until there are too many.
func TestMemoryKeepsTheLatest(t *testing.T) {
	t.Parallel()
	const most, n = 20_000, 120 // two minutes
	m, s := NewMemory(most), newServer(1, 20)
	var want []*monitor.Snapshot
	for range n {
		s.change()
		s.touch()
		want = append(want, s.snapshot())
		must.Succeed(t, m.Add(line(t, want[len(want)-1], true)))
	}
	first, last, ok := m.Bounds()
	if !ok || !last.Equal(want[n-1].TakenAt) || !first.After(want[0].TakenAt) || m.size > most {
		t.Errorf("%d bytes from %v to %v", m.size, first, last)
	}
	kept := len(m.Timeline(first, last))
	got, err := readFrom(m.Past(), time.Time{})
	must.Succeed(t, err)
	wantSnapshots(t, got.snapshots, want[n-kept:])
	got, err = readFrom(m.Past(), want[n-20].TakenAt)
	must.Succeed(t, err)
	wantSnapshots(t, got.snapshots, want[n-20:])
}
