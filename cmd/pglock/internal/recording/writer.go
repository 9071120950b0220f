package recording

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"
)

// WriterOptions says how a [Writer] writes.
type WriterOptions struct {
	// About is written at the beginning of each file; Started is filled in.
	About About
	// MaxSize and MaxAge are the size in bytes and the age of a file after which another is begun; 0 means no limit.
	MaxSize int64
	MaxAge  time.Duration
	// Keep is how many rotated files are kept beside the current one; 0 keeps all.
	Keep int
}

// Writer writes members to a file, and begins another when the file is large or old. The file at the path is always the
// current one. Rotated files get a suffix with a time.
//
// Each member is one write to the operating system, so the file is readable after a crash of the process. Each keyframe,
// at least one a minute, is flushed to the disk, so a crash of the machine loses about a minute. Files are created with
// mode 0600. A link in their place is refused, not followed. A Writer must not be used from two goroutines at once, and a
// path must not have two Writers.
type Writer struct {
	path    string
	options WriterOptions
	file    file // nil before the first and after a failure to begin one
	size    int64
	begun   time.Time
	now     func() time.Time
}

// file is an *os.File, or a test's.
type file interface {
	io.WriteSeeker
	Truncate(size int64) error
	Sync() error
	Close() error
}

// NewWriter begins a file at path. It rotates an existing regular file; anything else at path is an error.
func NewWriter(path string, o WriterOptions) (*Writer, error) {
	w := &Writer{path: path, options: o, now: time.Now}
	if err := w.begin(); err != nil {
		return nil, err
	}
	return w, nil
}

// errNotRegular refuses links, pipes and directories.
var errNotRegular = errors.New("it is not a regular file: remove it, or choose another path (links are not followed)")

// begin rotates the file at the path, and begins a new one.
func (w *Writer) begin() error {
	switch info, err := os.Lstat(w.path); {
	case err == nil && !info.Mode().IsRegular():
		return fmt.Errorf("record to %s: %w", w.path, errNotRegular)
	case err == nil:
		if err := w.moveAway(info.ModTime()); err != nil {
			return fmt.Errorf("record to %s: %w", w.path, err)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("record to %s: %w", w.path, err)
	}
	// O_EXCL does not follow a link, not even one created after the check.
	file, err := os.OpenFile(w.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("record to %s: %w", w.path, err)
	}
	w.file, w.size, w.begun = file, 0, w.now()
	start := startLine{kindStart, Version, w.options.About}
	start.Started = w.begun.UTC()
	if err := w.writeLine(start); err != nil {
		err = errors.Join(err, w.file.Close())
		w.file = nil
		return err
	}
	return w.prune()
}

// suffix is that of a rotated file: when it was last written to, and a number. In
// the order of their names the files are in the order of time, also when the clock was set back.
var suffix = regexp.MustCompile(`^\.\d{8}T\d{6}Z\.\d{3}$`)

// moveAway renames the file to a name that sorts after those of all earlier files.
func (w *Writer) moveAway(last time.Time) error {
	rotated, err := rotatedFiles(w.path)
	if err != nil {
		return err
	}
	stamp := w.path + "." + last.UTC().Format("20060102T150405Z")
	name := stamp + ".000"
	if n := len(rotated); n > 0 && rotated[n-1] >= name {
		stamp, number := rotated[n-1][:len(rotated[n-1])-4], 0
		if _, err := fmt.Sscanf(rotated[n-1][len(stamp):], ".%03d", &number); err != nil || number == 999 {
			return fmt.Errorf("there is a file %s, after which no name can come", rotated[n-1])
		}
		name = fmt.Sprintf("%s.%03d", stamp, number+1)
	}
	return os.Rename(w.path, name)
}

// rotatedFiles returns the rotated files, the oldest first.
func rotatedFiles(path string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("look for the files of a recording: %w", err)
	}
	var names []string
	base := filepath.Base(path)
	for _, entry := range entries {
		name := entry.Name()
		if entry.Type().IsRegular() && len(name) > len(base) && name[:len(base)] == base && suffix.MatchString(name[len(base):]) {
			names = append(names, filepath.Join(filepath.Dir(path), name))
		}
	}
	slices.SortFunc(names, cmp.Compare)
	return names, nil
}

// prune removes the oldest rotated files.
func (w *Writer) prune() error {
	if w.options.Keep <= 0 {
		return nil
	}
	names, err := rotatedFiles(w.path)
	if err != nil {
		return err
	}
	for _, name := range names[:max(0, len(names)-w.options.Keep)] {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove an old recording: %w", err)
		}
	}
	return nil
}

// Due reports whether the next snapshot should begin another file: call [Encoder.Restart] and [Writer.Rotate].
func (w *Writer) Due() bool {
	return w.file == nil || // the last attempt to begin a file failed
		w.options.MaxSize > 0 && w.size >= w.options.MaxSize ||
		w.options.MaxAge > 0 && w.now().Sub(w.begun) >= w.options.MaxAge
}

// Rotate closes the file and begins another.
func (w *Writer) Rotate() error {
	if err := w.Close(); err != nil {
		return err
	}
	return w.begin()
}

// Write writes the result of an [Encoder]. After an error the file ends with the last whole member, and the next snapshot
// must be a keyframe ([Encoder.Restart]).
func (w *Writer) Write(e Encoded) error {
	if err := w.write(e.Member); err != nil {
		return err
	}
	if e.Keyframe {
		if err := w.file.Sync(); err != nil {
			return fmt.Errorf("record to %s: %w", w.path, err)
		}
	}
	return nil
}

// Outage writes that there was no snapshot, and why.
func (w *Writer) Outage(reason string) error {
	return w.writeLine(gapLine{kindGap, Outage{Wall: w.now().UTC(), Reason: reason}})
}

// writeLine writes a line that does not belong to a snapshot.
func (w *Writer) writeLine(line any) error {
	var l lines
	l.add(line)
	member, err := l.pack(mark{At: w.now().UnixMicro()})
	if err != nil {
		return fmt.Errorf("record to %s: %w", w.path, err)
	}
	return w.write(member)
}

func (w *Writer) write(b []byte) error {
	if w.file == nil {
		return fmt.Errorf("record to %s: %w", w.path, os.ErrClosed)
	}
	if _, err := w.file.Write(b); err != nil {
		_, seekErr := w.file.Seek(w.size, 0)
		return fmt.Errorf("record to %s: %w", w.path, errors.Join(err, w.file.Truncate(w.size), seekErr))
	}
	w.size += int64(len(b))
	return nil
}

// Close closes the file.
func (w *Writer) Close() error {
	if w.file == nil {
		return nil
	}
	err := errors.Join(w.file.Sync(), w.file.Close())
	w.file = nil
	if err != nil {
		return fmt.Errorf("end the recording %s: %w", w.path, err)
	}
	return nil
}
