package recording

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/monitor"
)

func init() { maxContent, maxLine, maxObjects = 16<<20, 4<<20, 10_000 }

// bomb is a small file of very many bytes: a beginning, and a text again and again.
func bomb(t testing.TB, beginning, text string, size int) string {
	t.Helper()
	const part = 16 << 20
	again := compressed(t, strings.Repeat(text, max(1, min(size, part)/len(text))))
	path := filepath.Join(t.TempDir(), "locks.rec")
	file := append(compressed(t, head+beginning), bytes.Repeat(again, 1+size/part)...)
	must.Succeed(t, os.WriteFile(path, file, 0o600))
	return path
}

func compressed(t testing.TB, text string) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	must.Succeed(t, err)
	return w.EncodeAll([]byte(text), nil)
}

// A file of some kilobytes can have a line of gigabytes, a line of very many locks, or very many lines.
func TestAHostileRecordingCostsABoundedAmount(t *testing.T) {
	t.Parallel()
	locks := string(snapshotStart) + `2026-01-02T12:00:00Z","locks":[`
	passedOver := locks + `]}` + strings.Repeat(" ", 1<<15) + "\n"
	for name, path := range map[string]string{
		"a long line": bomb(t, locks, `{"key":"0123456789abcdef"},`, 2*maxLine),
		"many locks":  bomb(t, locks+strings.Repeat("{},", maxObjects), "{}]}\n", 1),
		"many lines":  bomb(t, "", passedOver, int(maxContent)+2*maxLine),
		"a wide window": func() string {
			path := filepath.Join(t.TempDir(), "locks.rec")
			f, err := os.Create(path)
			must.Succeed(t, err)
			w, err := zstd.NewWriter(f, zstd.WithWindowSize(16*maxWindow))
			must.Succeed(t, err)
			_, err = w.Write([]byte(head))
			must.Succeed(t, errors.Join(err, w.Flush()))
			_, err = w.Write([]byte(strings.Repeat(" ", 1<<20)))
			must.Succeed(t, errors.Join(err, w.Close(), f.Close()))
			return path
		}(),
	} {
		if info, err := os.Stat(path); err != nil || info.Size() > 1<<20 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
		past, err := OpenPast(path)
		var got contents
		if err == nil {
			got, err = readFrom(past, noon.AddDate(1, 0, 0))
		}
		if err == nil {
			err = got.damaged
		}
		if !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A recorder refuses a snapshot that a reader would refuse.
func TestRecordingRefusesASnapshotOfTooManyLocks(t *testing.T) {
	t.Parallel()
	if _, err := Encode(&monitor.Snapshot{Locks: make([]monitor.Lock, maxObjects)}, nil, false); !errors.Is(err, ErrTooLarge) {
		t.Errorf("the error is %v", err)
	}
}

// Whatever is in a recording, a terminal gets printable texts only.
func TestTheTextsOfARecordingArePrintable(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"\x1b]0;x\a", "\u202eesrever", "\u009b31m\x7f", "a\xffb\xc3", "\U000e0001tag\u2028", "a\r\nb"} {
		s, n := &monitor.Snapshot{}, 0
		fill(reflect.ValueOf(s).Elem(), &n)
		each(reflect.ValueOf(s), func(v reflect.Value) { v.SetString(text) })
		s.Version = monitor.FormatVersion
		got, err := readAll(fileOf(t, head, string(line(t, s, true).text), `{"outage":{"reason":"\u001b[2J"}}`+"\n"))
		must.Succeed(t, err)
		each(reflect.ValueOf(got.snapshots[0]), func(v reflect.Value) {
			if strings.ContainsAny(v.String(), "\x1b\a\u202e\u009b\x7f\U000e0001\u2028\r\n") {
				t.Errorf("%q was read as %q", text, v.String())
			}
		})
		if strings.Contains(got.outages[0], "\x1b") {
			t.Errorf("the outage is %q", got.outages)
		}
	}
}

// each calls see for each text in a value.
func each(v reflect.Value, see func(reflect.Value)) {
	switch v.Kind() {
	case reflect.String:
		if v.CanSet() {
			see(v)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			each(v.Elem(), see)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			each(v.Field(i), see)
		}
	case reflect.Slice:
		for i := range v.Len() {
			each(v.Index(i), see)
		}
	default:
	}
}

// FuzzRead reads lines that anything may have written.
func FuzzRead(f *testing.F) {
	s, n := &monitor.Snapshot{}, 0
	fill(reflect.ValueOf(s).Elem(), &n)
	s.Version = monitor.FormatVersion
	l, err := Encode(s, []int32{7}, true)
	must.Succeed(f, err)
	f.Add(string(l.text))
	f.Add(`{"outage":null,"ended":[]}` + "\n" + string(snapshotStart) + `2026-01-02T12:00:00Z","locks":null,"cycles":[{}]}` + "\n")
	f.Fuzz(func(t *testing.T, lines string) {
		got, err := readAll(fileOf(t, head, lines))
		if err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, errVersion) {
			t.Error(err)
		}
		for _, s := range got.snapshots {
			_, _ = s.Tree(), s.Action().String()
		}
	})
}
