package recording

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/pglock-toolkit/pglock/internal/ages"
	"github.com/pglock-toolkit/pglock/monitor"
)

// decoder keeps what the members since the last keyframe describe.
type decoder struct {
	large bool // the file is trusted
	state *state
	paid  int // elements that may still be read

	start *About    // of the file that has begun, before its first snapshot
	last  time.Time // of the last snapshot; zero before the first and after an outage

	inflate gzip.Reader
	buffer  bufio.Reader
	text    []byte
}

// decode reads a member. It returns false if it has neither a snapshot nor an outage. After an error the next keyframe
// can be read, unless the error matches ErrTooLarge.
func (d *decoder) decode(m mark, source io.ReaderAt, at int64) (frame Frame, ok bool, err error) {
	defer func() {
		if err != nil {
			d.state = nil
			err = fmt.Errorf("read a recording: offset %d: %w", at, err)
		}
	}()
	switch {
	case m.Kind == memberKeyframe:
		d.state = newState()
	case m.Kind == memberChange && d.state == nil:
		return frame, false, nil // after damage
	case m.Kind > memberChange:
		return frame, false, nil // of a later pglock
	}
	d.paid += elementsPerByte * int(m.Length)
	if err := d.lines(m, source, at, &frame); err != nil {
		return frame, false, err
	}
	if m.Kind == memberOther {
		return frame, frame.Outage != nil, nil
	}
	if d.state.used.Kind == "" {
		return frame, false, corrupt("a member without a snapshot")
	}
	if d.paid -= d.state.elements(); d.paid < 0 && !d.large {
		return frame, false, fmt.Errorf("%w: it has more snapshots of many locks than a recorder writes to as few bytes", ErrTooLarge)
	}
	frame.Ended = d.state.used.Ended
	frame.Snapshot, err = d.state.snapshot(d.maxCost())
	d.state.used = snapshotLine{}
	return frame, err == nil, err
}

// pause returns the outage before a snapshot, which is the first of a file: a recorder that ended could not write it. A
// recorder that begins another file takes the next snapshot in time.
func (d *decoder) pause(s *monitor.Snapshot) *Outage {
	start, last := d.start, d.last
	d.start, d.last = nil, s.TakenAt
	if start == nil || last.IsZero() {
		return nil
	}
	if missing := s.TakenAt.Sub(last); missing.Seconds() > 2*start.Interval+slack.Seconds() {
		return &Outage{Reason: "nothing was recorded for " + ages.Text(missing)}
	}
	return nil
}

// lines reads the lines of a member. The member's checksum was right if it returns nil.
func (d *decoder) lines(m mark, source io.ReaderAt, at int64, frame *Frame) error {
	d.buffer.Reset(io.NewSectionReader(source, at, int64(m.Length)))
	if err := d.inflate.Reset(&d.buffer); err != nil {
		return corrupt("%v", err)
	}
	d.inflate.Multistream(false)
	most := int64(maxInflated(int(m.Length)))
	limited := &io.LimitedReader{R: &d.inflate, N: most + 1}
	scanner := bufio.NewScanner(limited)
	scanner.Buffer(d.text, maxLine)
	for scanner.Scan() {
		if err := d.line(m, scanner.Bytes(), frame); err != nil {
			return err
		}
	}
	switch err := scanner.Err(); {
	case limited.N <= 0:
		return corrupt("a member of %d bytes has more than %d bytes of content", m.Length, most)
	case err != nil:
		return corrupt("%v", err)
	}
	return nil
}

// kindOf returns the kind of a line. It is the first field, as Encoder writes it, or is looked for.
func kindOf(line []byte) (string, error) {
	if rest, ok := bytes.CutPrefix(line, []byte(`{"kind":"`)); ok {
		if end := bytes.IndexByte(rest, '"'); end >= 0 && bytes.IndexByte(rest[:end], '\\') < 0 {
			return string(rest[:end]), nil
		}
	}
	l, err := read[struct{ Kind string }](line)
	return l.Kind, err
}

func read[T any](line []byte) (value T, err error) {
	if err := json.Unmarshal(line, &value); err != nil {
		return value, corrupt("%v", err)
	}
	return value, nil
}

func (d *decoder) line(m mark, line []byte, frame *Frame) error {
	if err := checkLine(line); err != nil {
		return err
	}
	kind, err := kindOf(line)
	if err != nil {
		return err
	}
	if m.Kind == memberOther {
		return otherLine(kind, line, frame)
	}
	if err := d.state.line(kind, line); err != nil {
		return err
	}
	if d.state.cost() > d.maxCost() || len(d.state.sessions) > maxSessions && !d.large {
		return tooLarge(d.maxCost())
	}
	return nil
}

var errVersion = errors.New("the recording is of a newer pglock")

func otherLine(kind string, line []byte, frame *Frame) error {
	switch kind {
	case kindStart:
		start, err := read[startLine](line)
		if err == nil && start.Version > Version {
			return fmt.Errorf("%w: it has version %d of the format, and this pglock reads %d", errVersion, start.Version, Version)
		}
		frame.start = &start.About
		return err
	case kindGap:
		gap, err := read[gapLine](line)
		frame.Outage = &gap.Outage
		return err
	}
	return nil
}

func (d *decoder) maxCost() int {
	if d.large {
		return maxLargeCost
	}
	return maxCost
}

func tooLarge(most int) error {
	return fmt.Errorf("%w: a snapshot takes more than %d MB of memory", ErrTooLarge, most>>20)
}
