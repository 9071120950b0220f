package recording

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestWriterRotatesAndKeepsTheNewest(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "locks.rec")
	w, err := NewWriter(path, WriterOptions{MaxSize: 2000, Keep: 3})
	check(t, err)
	s, e := newServer(1, 20), newEncoder(t, ticking())
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
