package recording

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/pglock-toolkit/pglock/monitor"
)

// Frame is what a [Reader] returns: a snapshot, an outage or a jump of a clock. One of the fields is set.
type Frame struct {
	Snapshot *monitor.Snapshot
	// Info and Ended belong to the snapshot. Ended are the process IDs of sessions that had ended by then.
	Info  Info
	Ended []int32

	About  *About
	Outage *Outage
	Jump   *ClockJump
}

// Reader reads a recording from its beginning. It must not be used from two goroutines at once.
type Reader struct {
	frames    rawReader
	decoder   decoder
	ended     []int32
	truncated bool
	closed    bool // an End frame was read
	closer    io.Closer
}

// Open opens a file of a [Writer]. A file that a crash has cut is read up to the cut, which is not an error
// ([Reader.Cut]).
func Open(path string) (*Reader, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open a recording: %w", err)
	}
	r, err := NewReader(bufio.NewReaderSize(file, 1<<16))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), file.Close())
	}
	r.closer = file
	return r, nil
}

// NewReader returns a reader of a file's content.
func NewReader(r io.Reader) (*Reader, error) {
	if err := readMagic(r); err != nil {
		return nil, err
	}
	return &Reader{frames: rawReader{r: r, offset: int64(len(magic)) + 1}}, nil
}

func readMagic(r io.Reader) error {
	head := make([]byte, len(magic)+1)
	switch n, err := io.ReadFull(r, head); {
	case err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && err != io.EOF:
		return err
	case n < len(head) || string(head[:len(magic)]) != magic:
		return corrupt("this is not a recording of pglock monitor")
	case head[len(magic)] > Version:
		return fmt.Errorf("the recording has version %d of the format, and this pglock reads %d: use a newer one",
			head[len(magic)], Version)
	}
	return nil
}

// Next returns the next frame, or io.EOF after the last whole one. It skips frames of unknown types. An error that
// matches [ErrCorrupt] says where the file is damaged; the rest of the file cannot be read.
func (r *Reader) Next() (Frame, error) {
	for {
		f, err := r.frames.next()
		switch {
		case errors.Is(err, io.EOF):
			return Frame{}, io.EOF
		case errors.Is(err, errTruncated):
			r.truncated = true
			return Frame{}, io.EOF
		case err != nil:
			return Frame{}, fmt.Errorf("read a recording: %w", err)
		}
		frame, done, err := r.frame(f)
		if err != nil {
			return Frame{}, fmt.Errorf("read a recording: offset %d: %w", f.offset, err)
		}
		if done {
			return frame, nil
		}
	}
}

// frame decodes a frame. It returns false if Next has nothing to return for it.
func (r *Reader) frame(f raw) (frame Frame, done bool, err error) {
	switch f.kind {
	case TypeStart:
		frame.About, err = fromJSON[About](f.payload)
	case TypeGap:
		frame.Outage, err = fromJSON[Outage](f.payload)
	case TypeClock:
		frame.Jump, err = fromJSON[ClockJump](f.payload)
	case TypeEnded:
		var e *endings
		if e, err = fromJSON[endings](f.payload); err == nil {
			r.ended = e.PIDs
		}
		return frame, false, err
	case TypeEnd:
		r.closed = true
		return frame, false, nil
	case TypeKey, TypeDelta:
		frame.Ended, r.ended = r.ended, nil
		if frame.Info, err = r.decoder.apply(f); err == nil {
			frame.Snapshot, err = r.decoder.snapshot(frame.Info)
		}
	default:
		return frame, false, nil
	}
	return frame, true, err
}

func fromJSON[T any](payload []byte) (*T, error) {
	value := new(T)
	if err := json.Unmarshal(payload, value); err != nil {
		return nil, corrupt("%v", err)
	}
	return value, nil
}

// Cut reports whether the file ended in the middle of a frame, or without the last frame of a closed file: its writer
// crashed or is still writing.
func (r *Reader) Cut() bool { return r.truncated || !r.closed }

// Close closes the file that [Open] has opened.
func (r *Reader) Close() error {
	if r.closer == nil {
		return nil
	}
	return r.closer.Close()
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
