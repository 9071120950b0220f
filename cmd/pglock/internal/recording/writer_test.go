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
	const most = 20_000
	w, err := NewWriter(path, WriterOptions{MaxSize: most})
	must.Succeed(t, err)
	s, n := newServer(1, 20), 0
	for range 150 {
		s.change()
		s.touch()
		must.Succeed(t, w.Add(line(t, s.snapshot(), false)))
		n++
	}
	must.Succeed(t, w.Outage("no route to host"))
	must.Succeed(t, w.Close())
	files, err := Files(path)
	must.Succeed(t, err)
	if len(files) < filesOfSize-2 || files[len(files)-1] != path {
		t.Fatalf("files %q", files)
	}
	size := int64(0)
	for _, file := range files {
		info, err := os.Lstat(file)
		must.Succeed(t, err)
		size += info.Size()
		if info.Mode().Perm() != 0o600 && os.PathSeparator == '/' {
			t.Errorf("%s has the mode %v", file, info.Mode())
		}
	}
	got, err := readAll(files...)
	must.Succeed(t, err)
	last := got.snapshots[len(got.snapshots)-1].TakenAt
	if size > most || len(got.snapshots) == n || !last.Equal(s.at) || got.snapshots[0].TakenAt.Add(time.Duration(len(got.snapshots)-1)*time.Second) != last {
		t.Errorf("%d snapshots up to %v in %d bytes", len(got.snapshots), last, size)
	}
}

// fullFile is a file on a disk that is full at times.
type fullFile struct {
	file
	room int // bytes that can be written
}

func (f *fullFile) Write(b []byte) (int, error) {
	if n := min(len(b), f.room); n < len(b) {
		n, _ = f.file.Write(b[:n])
		return n, syscall.ENOSPC
	}
	return f.file.Write(b)
}

// A file has no parts of what could not be written. The next snapshot begins another.
func TestWriterOutlivesAFullDisk(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "locks.rec")
	w, err := NewWriter(path, WriterOptions{MaxSize: large})
	must.Succeed(t, err)
	s := newServer(1, 20)
	var want []*monitor.Snapshot
	for i := range 30 {
		s.change()
		snapshot := s.snapshot()
		if full, ok := w.file.(*fullFile); ok {
			w.file = full.file
		}
		if w.file != nil && i >= 5 && i < 20 {
			w.file = &fullFile{w.file, 10 * i}
		}
		if err := w.Add(line(t, snapshot, true)); err == nil {
			want = append(want, snapshot)
		} else if i < 5 || i >= 20 || !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
	}
	must.Succeed(t, w.Close())
	files, err := Files(path)
	must.Succeed(t, err)
	got, err := readAll(files...)
	if must.Succeed(t, err); got.damaged != nil || len(want) >= 30 || len(want) < 15 {
		t.Errorf("%d snapshots were written; %v", len(want), got.damaged)
	}
	wantSnapshots(t, got.snapshots, want)
}

func TestWriterDoesNotFollowLinks(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	target, path := filepath.Join(directory, "precious"), filepath.Join(directory, "locks.rec")
	must.Succeed(t, os.WriteFile(target, []byte("precious"), 0o600))
	must.Succeed(t, os.Symlink(target, path))
	if _, err := NewWriter(path, WriterOptions{MaxSize: large}); !errors.Is(err, errNotRegular) {
		t.Errorf("with a link in its place: %v", err)
	}
	if text, err := os.ReadFile(target); err != nil || string(text) != "precious" {
		t.Errorf("the target is now %q, %v", text, err)
	}
	must.Succeed(t, os.Remove(path))
	must.Succeed(t, os.WriteFile(path, []byte("of before"), 0o600))
	w, err := NewWriter(path, WriterOptions{MaxSize: large})
	must.Succeed(t, err)
	must.Succeed(t, w.Close())
	rotated, err := rotatedFiles(path)
	if err != nil || len(rotated) != 1 {
		t.Errorf("the file of before: %q, %v", rotated, err)
	}
}
