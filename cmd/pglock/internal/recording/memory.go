package recording

import (
	"bytes"
	"io"
	"slices"
	"sync"
	"time"
)

// Memory keeps a recording in memory, compressed. It may be used from many goroutines at once.
type Memory struct {
	most int64 // bytes

	mu     sync.Mutex
	pieces []*piece
	size   int64
}

// piece is what was recorded in a minute. Only the last one has a compressor.
type piece struct {
	compressor *compressor
	text       []byte
	infos      []Info
}

// NewMemory returns a Memory of at most so many bytes. When it has more it drops the oldest.
func NewMemory(most int64) *Memory { return &Memory{most: most} }

// pieceLength is how much a piece has. A moment is found by reading its piece from the beginning.
const pieceLength = time.Minute

// Add adds a snapshot.
func (m *Memory) Add(l Line) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	last := len(m.pieces) - 1
	if last < 0 || m.pieces[last].compressor == nil || l.info.At.Sub(m.pieces[last].infos[0].At).Abs() >= pieceLength {
		if err := m.beginPieceLocked(len(l.text)); err != nil {
			return err
		}
		last = len(m.pieces) - 1
	}
	current := m.pieces[last]
	text, err := current.compressor.add(l.text)
	if err != nil {
		current.compressor = nil
		return err
	}
	current.text, current.infos = append(current.text, text...), append(current.infos, l.info)
	for m.size += int64(len(text)); m.size > m.most && len(m.pieces) > 1; {
		m.size -= int64(len(m.pieces[0].text))
		m.pieces = slices.Delete(m.pieces, 0, 1)
	}
	return nil
}

func (m *Memory) beginPieceLocked(size int) error {
	if last := len(m.pieces) - 1; last >= 0 {
		m.pieces[last].compressor = nil // what it has written can be read without its end
	}
	c, err := newCompressor(size)
	if err == nil {
		m.pieces = append(m.pieces, &piece{compressor: c})
	}
	return err
}

// infos returns the Info of each snapshot.
func (m *Memory) infos() (all []Info) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, one := range m.pieces {
		all = append(all, one.infos...)
	}
	return all
}

// Bounds returns the times of the first and the last snapshot, or false if there is none.
func (m *Memory) Bounds() (first, last time.Time, ok bool) {
	all := m.infos()
	if len(all) == 0 {
		return first, last, false
	}
	return all[0].At, all[len(all)-1].At, true
}

// Timeline returns the Info of the snapshots from one time to another.
func (m *Memory) Timeline(from, to time.Time) []Info {
	return slices.DeleteFunc(m.infos(), func(i Info) bool { return i.At.Before(from) || i.At.After(to) })
}

// Past returns what is in memory now.
func (m *Memory) Past() *Past {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := &Past{}
	for _, one := range m.pieces {
		if len(one.infos) > 0 {
			text := one.text[:len(one.text):len(one.text)]
			open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil }
			p.parts = append(p.parts, part{name: "in memory", open: open, first: one.infos[0].At})
		}
	}
	return p
}
