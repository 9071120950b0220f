package recording

import (
	"encoding/json"
	"errors"
	"testing"
	"time"
)

// FuzzReader reads any bytes.
func FuzzReader(f *testing.F) {
	file, _ := record(f, 4, 5)
	f.Add(file)
	f.Add(file[:len(file)/2])
	f.Add(begun(f))
	f.Fuzz(func(t *testing.T, file []byte) { readHostile(t, file) })
}

// FuzzLines gives any lines a correct member, so that what is behind the checksum is reached.
func FuzzLines(f *testing.F) {
	s, e := newServer(5, 5), newEncoder(true)
	for range 30 {
		s.change()
	}
	first := inflated(f, encode(f, e, s.snapshot()))
	s.change()
	f.Add(first, inflated(f, encode(f, e, s.snapshot())))
	f.Add([]byte(`{"kind":"snapshot","at":"9999-12-31T23:59:59-23:59","longest_seconds":1e999,"ended":[-1]}`), []byte(`{"kind":"snapshot"}`))
	f.Add([]byte(`{"kind":"snapshot"}
{"kind":"lock","id":-1,"key":"@9223372036854775808"}`), []byte(`{"kind":"lock","id":1,"more":true}`))
	f.Add([]byte(`{"kind":"snapshot"}
{"kind":"session","id":1,"pid":1,"pid":2,"state_since":"0000-01-01T00:00:00Z"}
{"kind":"session","id":1,"pid":3}
{"kind":"lock","id":1,"key":"k","lock":{"number":"NaN"},"holders":[{"session":1},{"session":1}],"waiters":[{"session":1}]}`),
		[]byte(`{"kind":"state","session":1,"query":"x"}
{"kind":"snapshot"}
{"kind":"gone","sessions":[1,1,2],"locks":[1,1]}`))
	f.Fuzz(func(t *testing.T, key, change []byte) {
		file := begun(t)
		for kind, text := range [][]byte{key, change} {
			member, err := pack(mark{Kind: memberKeyframe + memberKind(kind)}, text)
			if err != nil {
				t.Fatal(err)
			}
			file = append(file, member...)
		}
		readHostile(t, file)
	})
}

// readHostile reads a file and checks what must be true of every one: it never panics, what it returns can be written as
// JSON in every time zone, and it returns no more than the file has paid for.
func readHostile(t *testing.T, file []byte) {
	past, err := open(file)
	if err != nil {
		return
	}
	elements := 0
	for frame, err := range past.Play(time.Time{}) {
		if err != nil && !errors.Is(err, ErrTooLarge) && !errors.Is(err, errVersion) {
			t.Fatal(err)
		}
		if frame.Snapshot == nil {
			continue
		}
		for _, lock := range frame.Snapshot.Locks {
			elements += 1 + len(lock.Holders) + len(lock.Waiters)
		}
		far := *frame.Snapshot
		far.TakenAt = far.TakenAt.In(time.FixedZone("", 14*3600))
		if _, err := json.Marshal(far); err != nil {
			t.Fatal(err)
		}
	}
	if most := freeElements + elementsPerByte*len(file); elements > most {
		t.Errorf("%d elements of %d bytes", elements, len(file))
	}
}
