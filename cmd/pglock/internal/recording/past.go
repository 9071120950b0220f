package recording

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"sync"
	"time"
)

// Past reads recordings from any time on: from files, and from the memory of a program that records. It may be used from
// many goroutines at once.
type Past struct {
	large bool

	mu      sync.Mutex
	parts   []*part
	size    int64 // of the parts in memory
	files   []*os.File
	damaged []error
}

// part is a file, or a keyframe in memory with what follows it.
type part struct {
	source io.ReaderAt
	size   int64
	memory []byte  // nil for a file
	starts []start // the keyframes at which reading can begin
	infos  []Info
	every  int // how many snapshots an Info stands for
	seen   int // snapshots
	last   time.Time
}

// start is the position of a keyframe.
type start struct {
	at     time.Time
	offset int64
}

const (
	// startsApart is the least distance in bytes of two starts in a file, which bounds their number.
	startsApart = 16 << 10
	// maxInfos is the most Infos of a file. They are more than a timeline shows.
	maxInfos = 1 << 15
)

// NewPast returns an empty Past, to which a recorder adds.
func NewPast() *Past { return &Past{large: true} }

// OpenPast opens files, in the given order. It uses the readable parts of a damaged file, and [Past.Damaged] says what is
// wrong with the rest. A file that is not a recording is an error. Unless large is set, a recording that takes more than
// about 64 MB of memory to read is an error that matches [ErrTooLarge]. OpenPast reads only the headers of members.
func OpenPast(large bool, paths ...string) (*Past, error) {
	p := &Past{large: large}
	for _, path := range paths {
		if err := p.open(path); err != nil {
			return nil, errors.Join(fmt.Errorf("open the recording %s: %w", path, err), p.Close())
		}
	}
	return p, nil
}

func (p *Past) open(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	p.files = append(p.files, file)
	info, err := file.Stat()
	if err != nil {
		return err
	}
	return p.read(file, info.Size(), path)
}

// read adds a file's content.
func (p *Past) read(file io.ReaderAt, size int64, path string) error {
	if err := checkStart(file, size); err != nil {
		return err
	}
	read := &part{source: file, size: size, every: 1}
	p.parts = append(p.parts, read)
	for r := (members{file, 0, size}); ; {
		m, at, err := r.next()
		switch {
		case err == io.EOF:
			return nil
		case errors.Is(err, ErrCorrupt):
			p.noteDamage(fmt.Errorf("the recording %s: %w", path, err))
		case err != nil:
			return err
		default:
			read.add(m, at)
		}
	}
}

// checkStart returns an error for a file that is not a recording, or one of a later version.
func checkStart(file io.ReaderAt, size int64) error {
	head := make([]byte, min(size, int64(len(prefix))))
	if _, err := file.ReadAt(head, 0); err != nil && err != io.EOF {
		return err
	}
	if string(head) != prefix {
		return corrupt("this is not a recording of pglock monitor")
	}
	m, _, err := (&members{file, 0, size}).next()
	if err != nil || m.Kind != memberOther {
		return nil // the first member is damaged, cut or missing
	}
	if _, _, err := (&decoder{}).decode(m, file, 0); err != nil && !errors.Is(err, ErrCorrupt) {
		return err
	}
	return nil
}

// add notes a member.
func (p *part) add(m mark, at int64) {
	if m.Kind != memberKeyframe && m.Kind != memberChange {
		return
	}
	info := m.info()
	if n := len(p.starts); m.Kind == memberKeyframe && (n == 0 || at-p.starts[n-1].offset >= startsApart) {
		p.starts = append(p.starts, start{info.At, at})
	}
	p.last = info.At
	if p.seen++; (p.seen-1)%p.every != 0 {
		last := len(p.infos) - 1
		p.infos[last] = worse(p.infos[last], info)
		return
	}
	if p.infos = append(p.infos, info); len(p.infos) < maxInfos {
		return
	}
	half := make([]Info, 0, maxInfos) // a timeline may still read the others
	for pair := range slices.Chunk(p.infos, 2) {
		half = append(half, worse(pair[0], pair[1]))
	}
	p.infos, p.every, p.seen = half, 2*p.every, 0
}

// worse returns the greater values of both, with the time of the first.
func worse(a, b Info) Info {
	return Info{a.At, max(a.Waiters, b.Waiters), max(a.Deadlocks, b.Deadlocks), max(a.Longest, b.Longest)}
}

// Large reports whether the recording is trusted to take as much memory as it needs.
func (p *Past) Large() bool { return p.large }

// Damaged says what could not be read, and why, since the last call.
func (p *Past) Damaged() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := errors.Join(p.damaged...)
	p.damaged = nil
	return err
}

// Add keeps a result of an [Encoder] in memory. If the memory then has more than most bytes, Add drops the oldest.
func (p *Past) Add(e Encoded, most int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := len(p.parts) - 1
	if e.Keyframe || last < 0 || p.parts[last].memory == nil {
		p.parts = append(p.parts, &part{every: 1})
		last++
	}
	m, _ := markOf(e.Member[:headerSize])
	part := p.parts[last]
	part.add(m, part.size)
	part.memory = append(part.memory, e.Member...)
	part.source, part.size = bytes.NewReader(part.memory), int64(len(part.memory))
	p.size += int64(len(e.Member))
	for p.size > most && len(p.parts) > 1 {
		p.size -= int64(len(p.parts[0].memory))
		p.parts = slices.Delete(p.parts, 0, 1)
	}
}

// current returns the present parts. Those that are complete do not change; the last one is copied.
func (p *Past) current() []*part {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := slices.Clone(p.parts)
	if n := len(all); n > 0 {
		last := *all[n-1]
		last.starts, last.infos = slices.Clip(last.starts), slices.Clip(last.infos)
		all[n-1] = &last
	}
	return all
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
	for _, part := range p.current() {
		if len(part.infos) == 0 {
			continue
		}
		if !ok {
			first, ok = part.infos[0].At, true
		}
		last = part.last
	}
	return first, last, ok
}

// Timeline returns the Info of the snapshots from one time to another. In a long file one Info stands for several.
func (p *Past) Timeline(from, to time.Time) iter.Seq[Info] {
	return func(yield func(Info) bool) {
		for _, part := range p.current() {
			for _, info := range part.infos {
				if !info.At.Before(from) && !info.At.After(to) && !yield(info) {
					return
				}
			}
		}
	}
}

// Play returns an iterator over the frames from a time on. It starts with a keyframe at or before that time, or else with
// the first. If the server's clock was set back, it starts with the first time that fits. A damaged part is an Outage up to
// the next keyframe, and so is the time between two recorders. Play ends after an error.
func (p *Past) Play(from time.Time) iter.Seq2[Frame, error] {
	return func(yield func(Frame, error) bool) {
		parts := p.current()
		first, offset := 0, int64(0)
	search:
		for i, part := range parts {
			for _, s := range part.starts {
				if s.at.After(from) {
					break search
				}
				first, offset = i, s.offset
			}
		}
		d := &decoder{large: p.large, paid: freeElements}
		for _, part := range parts[min(first, len(parts)):] {
			if !p.play(d, part, offset, yield) {
				return
			}
			offset = 0
		}
	}
}

// play yields the frames of a part. It returns false at the end of the iteration.
func (p *Past) play(d *decoder, part *part, offset int64, yield func(Frame, error) bool) bool {
	d.state = nil
	r := members{part.source, offset, part.size}
	for {
		m, at, err := r.next()
		frame, ok := Frame{}, false
		if err == nil {
			if frame, ok, err = d.decode(m, part.source, at); errors.Is(err, ErrCorrupt) {
				p.noteDamage(err)
			}
		}
		switch {
		case err == io.EOF:
			return true
		case errors.Is(err, ErrCorrupt):
			d.state, d.last = nil, time.Time{}
			if !yield(Frame{Outage: &Outage{Reason: err.Error()}}, nil) {
				return false
			}
		case err != nil:
			yield(Frame{}, err)
			return false
		case frame.start != nil:
			d.start = frame.start
		case ok && !d.yield(frame, yield):
			return false
		}
	}
}

// yield yields a frame, after the outage before it if there is one.
func (d *decoder) yield(frame Frame, yield func(Frame, error) bool) bool {
	if frame.Snapshot == nil {
		d.last = time.Time{}
	} else if outage := d.pause(frame.Snapshot); outage != nil && !yield(Frame{Outage: outage}, nil) {
		return false
	}
	return yield(frame, nil)
}

// noteDamage notes what OpenPast has not seen.
func (p *Past) noteDamage(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if text := err.Error(); len(p.damaged) < 10 && !slices.ContainsFunc(p.damaged, func(e error) bool { return e.Error() == text }) {
		p.damaged = append(p.damaged, err)
	}
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
