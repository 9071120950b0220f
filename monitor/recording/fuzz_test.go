package recording

import (
	"errors"
	"testing"
)

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

// FuzzBody gives bodies correct checksums, so that the code after the check is reached.
func FuzzBody(f *testing.F) {
	s, state := newServer(5, 5), newState(true)
	for range 30 {
		s.change()
	}
	body, err := state.encode(s.snapshot(), Info{Type: TypeKey, At: noon})
	check(f, err)
	s.change()
	next, err := state.encode(s.snapshot(), Info{Type: TypeDelta, At: noon})
	check(f, err)
	f.Add(body, next)
	f.Fuzz(func(t *testing.T, key, delta []byte) {
		file := start()
		e := newEncoder(t)
		for kind, body := range [][]byte{key, delta} {
			payload, err := e.compressed(Info{At: noon, Wall: noon}, body)
			if err != nil {
				return // larger than a body can be
			}
			file = appendFrame(file, TypeKey+Type(kind), payload)
		}
		if _, err := readAll(file); err != nil && !errors.Is(err, ErrCorrupt) {
			t.Error(err)
		}
	})
}
