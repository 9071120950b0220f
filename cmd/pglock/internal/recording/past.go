package recording

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/pglock-toolkit/pglock/internal/display"
)

// Past reads a recording. It may be used from many goroutines at once.
type Past struct {
	parts []part

	mu      sync.Mutex
	damaged []error
}

// part is a file, or a piece of a recording in memory.
type part struct {
	name  string
	open  func() (io.ReadCloser, error)
	first time.Time // of its first snapshot; zero if it has none
}

// OpenPast opens files, in the given order. A file that is not a recording is an error. It uses the readable parts of
// damaged files, and [Past.Damaged] says what is wrong.
func OpenPast(paths ...string) (*Past, error) {
	p := &Past{}
	for _, path := range paths {
		file := part{name: path, open: func() (io.ReadCloser, error) { return os.Open(path) }}
		if err := p.begin(&file); err != nil {
			return nil, fmt.Errorf("open the recording %s: %w", path, err)
		}
		p.parts = append(p.parts, file)
	}
	return p, nil
}

// begin reads a file's beginning, up to the first snapshot.
func (p *Past) begin(file *part) error {
	begun := false
	for line, err := range file.lines() {
		switch {
		case err != nil && begun:
			p.noteDamage(err)
			return nil
		case err != nil:
			return err
		}
		if at, ok := takenAt(line); ok && begun {
			file.first = at
			return nil
		}
		n, err := decodeNote(line)
		if !begun && (err != nil || n.About == nil) {
			if errors.Is(err, errVersion) {
				return err
			}
			return fmt.Errorf("%w: this is not a recording of pglock monitor", ErrCorrupt)
		}
		begun = true
	}
	if !begun {
		return fmt.Errorf("%w: it is empty", ErrCorrupt)
	}
	return nil
}

// lines yields the lines of a part. It ends after an error.
func (p part) lines() iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		file, err := p.open()
		if err != nil {
			yield(nil, err)
			return
		}
		defer func() { _ = file.Close() }() // it was only read
		reader, err := newLineReader(file)
		if err != nil {
			yield(nil, err)
			return
		}
		defer reader.close()
		for {
			line, err := reader.next()
			switch {
			case err == io.EOF:
				return
			case err != nil:
				yield(nil, fmt.Errorf("read the recording %s: %w", p.name, err))
				return
			case !yield(line, nil):
				return
			}
		}
	}
}

// Damaged says what could not be read, and why, since the last call.
func (p *Past) Damaged() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := errors.Join(p.damaged...)
	p.damaged = nil
	return err
}

func (p *Past) noteDamage(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.ContainsFunc(p.damaged, func(e error) bool { return e.Error() == err.Error() }) {
		p.damaged = append(p.damaged, err)
	}
}

// Bounds returns the times of the first and the last snapshot, or false if there is none. It reads the last file.
func (p *Past) Bounds() (first, last time.Time, ok bool) {
	parts := slices.DeleteFunc(slices.Clone(p.parts), func(one part) bool { return one.first.IsZero() })
	if len(parts) == 0 {
		return first, last, false
	}
	first = parts[0].first
	for line, err := range parts[len(parts)-1].lines() {
		if at, ok := takenAt(line); ok && err == nil {
			last = at
		}
	}
	return first, last, true
}

// Play returns an iterator over the frames from a time on. It starts with the last snapshot at or before that time, or else
// with the first. What is damaged is an Outage up to the next file, and so is the time between two recorders.
func (p *Past) Play(from time.Time) iter.Seq2[Frame, error] {
	first := 0
	for i, one := range p.parts {
		if !one.first.IsZero() && !one.first.After(from) {
			first = i
		}
	}
	return func(yield func(Frame, error) bool) {
		r := reader{from: from}
		for _, one := range p.parts[min(first, len(p.parts)):] {
			for line, err := range one.lines() {
				if err == nil {
					err = r.read(line)
				}
				damaged := errors.Is(err, ErrCorrupt)
				if damaged {
					p.noteDamage(err)
					r.last = time.Time{}
					r.frames = append(r.frames, Frame{Outage: &Outage{Reason: err.Error()}})
				} else if err != nil {
					yield(Frame{}, err)
					return
				}
				if !r.yield(yield) {
					return
				}
				if damaged {
					break
				}
			}
		}
		if err := r.begin(); err != nil {
			p.noteDamage(err)
		}
		r.yield(yield)
	}
}

// reader makes frames of lines.
type reader struct {
	from   time.Time
	begun  bool
	before []byte // the line of the last snapshot before that time
	ended  []int32
	frames []Frame // that are next

	about *About    // of a file that has begun, before its first snapshot
	last  time.Time // of the last snapshot; zero before the first and after an outage
}

func (r *reader) yield(yield func(Frame, error) bool) bool {
	frames := r.frames
	r.frames = nil
	for _, frame := range frames {
		if !yield(frame, nil) {
			return false
		}
	}
	return true
}

func (r *reader) read(line []byte) error {
	at, ok := takenAt(line)
	switch {
	case !ok:
		return r.readNote(line)
	case !r.begun && !at.After(r.from):
		r.before, r.frames = append(r.before[:0], line...), nil
		r.about, r.last, r.ended = nil, at, nil
		return nil
	}
	return errors.Join(r.begin(), r.readSnapshot(line))
}

// begin reads the last snapshot before the wanted time, which comes first.
func (r *reader) begin() error {
	if r.begun = true; len(r.before) == 0 {
		return nil
	}
	since := r.frames // outages
	r.frames = nil
	err := r.readSnapshot(r.before)
	r.before, r.frames = nil, append(r.frames, since...)
	return err
}

func (r *reader) readNote(line []byte) error {
	n, err := decodeNote(line)
	switch {
	case err != nil:
		return err
	case n.About != nil:
		r.about = n.About
	case n.Outage != nil:
		r.last = time.Time{}
		r.frames = append(r.frames, Frame{Outage: n.Outage})
	default:
		r.ended = n.Ended
	}
	return nil
}

func (r *reader) readSnapshot(line []byte) error {
	s, err := decodeSnapshot(line)
	if err != nil {
		return err
	}
	if outage := r.pause(s.TakenAt); outage != nil {
		r.frames = append(r.frames, Frame{Outage: outage})
	}
	r.frames = append(r.frames, Frame{Snapshot: s, Ended: r.ended})
	r.ended = nil
	return nil
}

// pause returns the outage before a snapshot, which is the first of a file: a recorder that ended could not write it. A
// recorder that begins another file takes the next snapshot in time.
func (r *reader) pause(at time.Time) *Outage {
	about, last := r.about, r.last
	r.about, r.last = nil, at
	if about == nil || last.IsZero() {
		return nil
	}
	if missing := at.Sub(last); missing.Seconds() > 2*about.Interval+slack.Seconds() {
		return &Outage{Reason: "nothing was recorded for " + display.Age(missing)}
	}
	return nil
}

// Files returns the files of a recording: the one at path and those that a [Writer] has rotated, the oldest first.
func Files(path string) ([]string, error) {
	rotated, err := rotatedFiles(path)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(path); err == nil {
		rotated = append(rotated, path)
	} else if len(rotated) == 0 {
		return nil, fmt.Errorf("open a recording: %w", err)
	}
	return slices.Clip(rotated), nil
}
