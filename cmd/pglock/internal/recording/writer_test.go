package recording

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/monitor"
)

func TestWriterRotatesAndKeepsTheNewest(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "locks.rec")
	w, err := NewWriter(path, WriterOptions{MaxSize: 2000, Keep: 3})
	must.Succeed(t, err)
	s, e := newServer(1, 20), newEncoder(false)
	for range 100 {
		s.change()
		must.Succeed(t, write(w, e, s.snapshot()))
	}
	must.Succeed(t, w.Outage("no route to host"))
	must.Succeed(t, w.Close())
	files, err := Files(path)
	must.Succeed(t, err)
	if len(files) != 4 || files[3] != path {
		t.Fatalf("files %q", files)
	}
	last := time.Time{}
	for _, file := range files {
		info, err := os.Lstat(file)
		must.Succeed(t, err)
		if info.Mode().Perm() != 0o600 && os.PathSeparator == '/' {
			t.Errorf("%s has the mode %v", file, info.Mode())
		}
		text, err := os.ReadFile(file)
		must.Succeed(t, err)
		got, err := readAll(text)
		must.Succeed(t, err)
		for _, s := range got.snapshots {
			if !s.TakenAt.After(last) {
				t.Errorf("%s: the snapshot of %v is out of order", file, s.TakenAt)
			}
			last = s.TakenAt
		}
	}
	past, err := OpenPast(false, files...)
	must.Succeed(t, err)
	defer func() { must.Succeed(t, past.Close()) }()
	first, end, ok := past.Bounds()
	if !ok || !end.Equal(s.at) || !first.Before(end) {
		t.Errorf("bounds %v, %v, %v", first, end, ok)
	}
	for frame, err := range past.Play(end.Add(-3 * time.Second)) {
		if must.Succeed(t, err); frame.Snapshot == nil || frame.Snapshot.TakenAt.After(end.Add(-3*time.Second)) {
			t.Errorf("three seconds before %v there is %+v", end, frame)
		}
		break
	}
}

// write writes a snapshot, as a recorder does.
func write(w *Writer, e *Encoder, s *monitor.Snapshot) error {
	if w.Due() {
		e.Restart()
		if err := w.Rotate(); err != nil {
			return err
		}
	}
	encoded, err := e.Snapshot(s, nil)
	if err != nil {
		return err
	}
	if err := w.Write(encoded); err != nil {
		e.Restart()
		return err
	}
	return nil
}

// fullFile is a file on a disk that is full at times.
type fullFile struct {
	*os.File
	room int // bytes that can be written
}

func (f *fullFile) Write(b []byte) (int, error) {
	if n := min(len(b), f.room); n < len(b) {
		n, _ = f.File.Write(b[:n])
		return n, syscall.ENOSPC
	}
	return f.File.Write(b)
}

// A file has no parts of what could not be written, and goes on when there is room again.
func TestWriterOutlivesAFullDisk(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "locks.rec")
	w, err := NewWriter(path, WriterOptions{})
	must.Succeed(t, err)
	full := &fullFile{File: w.file.(*os.File), room: 1 << 20}
	w.file = full
	s, e := newServer(1, 20), newEncoder(true)
	var want []*monitor.Snapshot
	for i := range 30 {
		s.change()
		snapshot := s.snapshot()
		if full.room = 1 << 20; i >= 5 && i < 20 {
			full.room = 10 * i
		}
		if err := write(w, e, snapshot); err == nil {
			want = append(want, snapshot)
		} else if full.room == 1<<20 || !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
	}
	must.Succeed(t, w.Close())
	file, err := os.ReadFile(path)
	must.Succeed(t, err)
	got, err := readAll(file)
	if must.Succeed(t, err); got.damaged != nil || len(want) >= 30 {
		t.Errorf("%d snapshots were written; %v", len(want), got.damaged)
	}
	wantSnapshots(t, got.snapshots, want)
}

func TestWriterDoesNotFollowLinks(t *testing.T) {
	t.Parallel()
	if os.PathSeparator != '/' {
		t.Log("links need rights here")
		return
	}
	directory := t.TempDir()
	target, path := filepath.Join(directory, "precious"), filepath.Join(directory, "locks.rec")
	must.Succeed(t, os.WriteFile(target, []byte("precious"), 0o600))
	must.Succeed(t, os.Symlink(target, path))
	if _, err := NewWriter(path, WriterOptions{}); !errors.Is(err, errNotRegular) {
		t.Errorf("with a link in its place: %v", err)
	}
	if text, err := os.ReadFile(target); err != nil || string(text) != "precious" {
		t.Errorf("the target is now %q, %v", text, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	must.Succeed(t, os.WriteFile(path, []byte("of before"), 0o644))
	w, err := NewWriter(path, WriterOptions{})
	must.Succeed(t, err)
	must.Succeed(t, w.Close())
	rotated, err := rotatedFiles(path)
	if err != nil || len(rotated) != 1 {
		t.Errorf("the file of before: %q, %v", rotated, err)
	}
}
