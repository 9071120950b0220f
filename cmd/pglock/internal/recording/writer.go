package recording

import (
	"bytes"
	"cmp"
	"encoding/json"
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
	// About is written at the beginning of each file.
	About About
	// MaxSize is how many bytes all files of the recording have. The oldest are removed.
	MaxSize int64
}

// Writer writes lines to a file, and begins another when the file is large. The file at the path is always the current
// one. Rotated files get a suffix with a time.
//
// Each line is one write to the operating system, so the file is readable after a crash of the process. It is flushed to
// the disk once a minute, so a crash of the machine loses about a minute. Files are created with mode 0600. A link in their
// place is refused, not followed. A Writer must not be used from two goroutines at once, and a path must not have two
// Writers.
type Writer struct {
	path       string
	options    WriterOptions
	file       file // nil before the first and after a failure
	compressor *compressor
	size       int64
	synced     time.Time
	now        func() time.Time
}

const (
	// filesOfSize is how many files a recording of MaxSize has if they are long.
	filesOfSize = 8
	syncEvery   = time.Minute
)

// file is an *os.File, or a test's.
type file interface {
	io.Writer
	Truncate(size int64) error
	Sync() error
	Close() error
}

// NewWriter begins a file at path. It rotates an existing regular file; anything else at path is an error.
func NewWriter(path string, o WriterOptions) (*Writer, error) {
	w := &Writer{path: path, options: o, now: time.Now}
	if err := w.begin(0); err != nil {
		return nil, err
	}
	return w, nil
}

// errNotRegular refuses links, pipes and directories.
var errNotRegular = errors.New("it is not a regular file: remove it, or choose another path (links are not followed)")

// begin begins a file for lines of about a size.
func (w *Writer) begin(size int) error {
	if err := w.open(size); err != nil {
		return fmt.Errorf("record to %s: %w", w.path, err)
	}
	about := w.options.About
	about.Version, about.Started = Version, w.now().UTC()
	return w.write(note{About: &about})
}

// open rotates the file at the path, and creates a new one.
func (w *Writer) open(size int) error {
	switch info, err := os.Lstat(w.path); {
	case err == nil && !info.Mode().IsRegular():
		return errNotRegular
	case err == nil:
		if err := w.moveAway(info.ModTime()); err != nil {
			return err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := w.prune(); err != nil {
		return err
	}
	compressor, err := newCompressor(size)
	if err != nil {
		return err
	}
	// O_EXCL does not follow a link, not even one created after the check.
	file, err := os.OpenFile(w.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	w.file, w.compressor, w.size, w.synced = file, compressor, 0, w.now()
	return nil
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

// prune removes the oldest rotated files, to make room for another file.
func (w *Writer) prune() error {
	names, err := rotatedFiles(w.path)
	if err != nil {
		return err
	}
	room := w.options.MaxSize - w.options.MaxSize/filesOfSize
	for _, name := range slices.Backward(names) {
		info, err := os.Stat(name)
		if err == nil {
			room -= info.Size()
		}
		if err == nil && room < 0 {
			err = os.Remove(name)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove an old recording: %w", err)
		}
	}
	return nil
}

// Add writes a snapshot, to another file if this one is full or the last attempt to write failed.
func (w *Writer) Add(l Line) error {
	if w.file == nil || w.size >= w.options.MaxSize/filesOfSize || w.compressor.content+int64(len(l.text)) > maxContent {
		if err := w.Close(); err != nil {
			return err
		}
		if err := w.begin(len(l.text)); err != nil {
			return err
		}
	}
	return w.writeText(l.text)
}

// Outage writes that there was no snapshot, and why.
func (w *Writer) Outage(reason string) error {
	return w.write(note{Outage: &Outage{Wall: w.now().UTC(), Reason: reason}})
}

func (w *Writer) write(n note) error {
	var text bytes.Buffer
	if err := json.NewEncoder(&text).Encode(n); err != nil {
		return err
	}
	return w.writeText(text.Bytes())
}

func (w *Writer) writeText(text []byte) error {
	if w.file == nil {
		return fmt.Errorf("record to %s: %w", w.path, os.ErrClosed)
	}
	compressed, err := w.compressor.add(text)
	if err == nil {
		_, err = w.file.Write(compressed)
	}
	if err == nil && w.now().Sub(w.synced) >= syncEvery {
		w.synced = w.now()
		err = w.file.Sync()
	}
	if err != nil { // what follows would depend on what is not there
		err = fmt.Errorf("record to %s: %w", w.path, errors.Join(err, w.file.Truncate(w.size), w.file.Close()))
		w.file = nil
		if w.size == 0 {
			err = errors.Join(err, os.Remove(w.path))
		}
		return err
	}
	w.size += int64(len(compressed))
	return nil
}

// Close closes the file.
func (w *Writer) Close() error {
	if w.file == nil {
		return nil
	}
	end, err := w.compressor.end()
	if err == nil {
		_, err = w.file.Write(end)
	}
	err = errors.Join(err, w.file.Sync(), w.file.Close())
	w.file = nil
	if err != nil {
		return fmt.Errorf("end the recording %s: %w", w.path, err)
	}
	return nil
}
