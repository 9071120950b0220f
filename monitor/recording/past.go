package recording

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/pglock-toolkit/pglock/monitor"
)

// Past reads recordings from any time on: from files, and from the memory of a program that records. It may be used from
// many goroutines at once.
type Past struct {
	mu       sync.Mutex
	segments []*segment
	size     int64 // of the segments in memory
	files    []*os.File
	damaged  []error
}

// segment is a keyframe and the frames up to the next one.
type segment struct {
	source io.ReaderAt
	memory int64 // bytes in memory
	bytes  []byte
	marks  []mark
}

// mark is the position of a frame.
type mark struct {
	info   Info // of snapshot frames
	kind   Type
	offset int64
	length int64
}

// NewPast returns an empty Past.
func NewPast() *Past { return &Past{} }

// OpenPast opens files, in the given order. It uses the readable parts of a damaged file, and [Past.Damaged] says what is
// wrong with the rest. A file that is not a recording is an error. OpenPast reads each file once, to check it.
func OpenPast(paths ...string) (*Past, error) {
	p := NewPast()
	for _, path := range paths {
		if err := p.add(path); err != nil {
			return nil, errors.Join(err, p.Close())
		}
	}
	return p, nil
}

func (p *Past) add(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open a recording: %w", err)
	}
	p.files = append(p.files, file)
	r := bufio.NewReaderSize(file, 1<<18)
	if err := readMagic(r); err != nil {
		return fmt.Errorf("open the recording %s: %w", path, err)
	}
	frames := rawReader{r: r, offset: int64(len(magic)) + 1}
	for {
		f, err := frames.next()
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, errTruncated):
			return nil
		case err == nil:
			err = p.mark(file, f)
		}
		if err != nil {
			p.damaged = append(p.damaged, fmt.Errorf("the recording %s: %w", path, err))
			return nil
		}
	}
}

// mark adds the position of a frame.
func (p *Past) mark(source io.ReaderAt, f raw) error {
	m := mark{kind: f.kind, offset: f.offset, length: frameHeader + int64(len(f.payload))}
	if f.kind == TypeKey || f.kind == TypeDelta {
		var err error
		if m.info, err = readInfo(f.kind, f.payload); err != nil {
			return err
		}
	}
	last := len(p.segments) - 1
	if f.kind == TypeKey || last < 0 || p.segments[last].source != source {
		p.segments = append(p.segments, &segment{source: source})
		last++
	}
	p.segments[last].marks = append(p.segments[last].marks, m)
	return nil
}

// Damaged says what could not be read, and why.
func (p *Past) Damaged() error { return errors.Join(p.damaged...) }

// Add keeps a result of an [Encoder] in memory. If the memory then has more than most bytes, Add drops the oldest.
func (p *Past) Add(e Encoded, most int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := len(p.segments) - 1
	if e.Info.Type == TypeKey || last < 0 || p.segments[last].source != nil {
		p.segments = append(p.segments, &segment{})
		last++
	}
	p.segments[last].add(e)
	p.size += int64(len(e.Before) + len(e.Frame))
	for p.size > most && len(p.segments) > 1 {
		p.size -= p.segments[0].memory
		p.segments = slices.Delete(p.segments, 0, 1)
	}
}

func (s *segment) add(e Encoded) {
	if len(e.Before) > 0 {
		s.marks = append(s.marks, mark{kind: 0, offset: int64(len(s.bytes)), length: int64(len(e.Before))})
		s.bytes = append(s.bytes, e.Before...)
	}
	s.marks = append(s.marks, mark{info: e.Info, kind: e.Info.Type, offset: int64(len(s.bytes)), length: int64(len(e.Frame))})
	s.bytes = append(s.bytes, e.Frame...)
	s.memory = int64(len(s.bytes))
}

// Close closes the files.
func (p *Past) Close() error {
	var err error
	for _, file := range p.files {
		err = errors.Join(err, file.Close())
	}
	return err
}

// Bounds returns the times of the first and the last snapshot, or false if there is none.
func (p *Past) Bounds() (first, last time.Time, ok bool) {
	for _, s := range p.current() {
		for _, m := range s.marks {
			if m.snapshot() && !ok {
				first, ok = m.info.At, true
			}
			if m.snapshot() {
				last = m.info.At
			}
		}
	}
	return first, last, ok
}

func (m mark) snapshot() bool { return m.kind == TypeKey || m.kind == TypeDelta }

// current returns the present segments. Complete segments never change; the last one is copied.
func (p *Past) current() []*segment {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := slices.Clone(p.segments)
	if n := len(all); n > 0 {
		last := *all[n-1]
		last.marks, last.bytes = slices.Clip(last.marks), slices.Clip(last.bytes)
		all[n-1] = &last
	}
	return all
}

// Timeline returns the Info of the snapshots from one time to another.
func (p *Past) Timeline(from, to time.Time) iter.Seq[Info] {
	return func(yield func(Info) bool) {
		for _, s := range p.current() {
			for _, m := range s.marks {
				if m.snapshot() && !m.info.At.Before(from) && !m.info.At.After(to) && !yield(m.info) {
					return
				}
			}
		}
	}
}

// Play returns an iterator over the frames from a time on. It starts with the last keyframe at or before that time, or
// else with the first. If the server's clock was set back, it starts with the first time that fits. It skips damaged
// parts up to the next keyframe, and ends after an error.
func (p *Past) Play(from time.Time) iter.Seq2[Frame, error] {
	return func(yield func(Frame, error) bool) {
		stretches := p.current()
		begin := 0
		for i, s := range stretches {
			if k := s.marks[0]; k.kind == TypeKey && k.info.At.After(from) {
				break
			} else if k.kind == TypeKey {
				begin = i
			}
		}
		for _, s := range stretches[begin:] {
			if !s.play(yield) {
				return
			}
		}
	}
}

// play yields the frames of a segment. It returns false if the consumer has stopped.
func (s *segment) play(yield func(Frame, error) bool) bool {
	source := s.source
	if source == nil {
		source = bytes.NewReader(s.bytes)
	}
	first, last := s.marks[0], s.marks[len(s.marks)-1]
	section := io.NewSectionReader(source, first.offset, last.offset+last.length-first.offset)
	r := &Reader{frames: rawReader{r: bufio.NewReader(section), offset: first.offset}}
	for {
		frame, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			return true
		case err != nil:
			return yield(Frame{}, err)
		}
		if !yield(frame, nil) {
			return false
		}
	}
}

// At returns the last snapshot at or before a time, or else the first one.
func (p *Past) At(t time.Time) (*monitor.Snapshot, error) {
	var found *monitor.Snapshot
	for frame, err := range p.Play(t) {
		switch {
		case err != nil:
			return found, err
		case frame.Snapshot == nil:
			continue
		case found != nil && frame.Snapshot.TakenAt.After(t):
			return found, nil
		}
		found = frame.Snapshot
	}
	if found == nil {
		return nil, errors.New("the recording has no snapshot")
	}
	return found, nil
}
