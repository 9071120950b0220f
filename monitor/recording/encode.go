package recording

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pglock-toolkit/pglock/monitor"
)

// Encoder makes frames of snapshots. It must not be used from two goroutines at once.
type Encoder struct {
	queries bool
	now     func() (wall time.Time, elapsed time.Duration)

	before   Info          // of the last snapshot
	interval time.Duration // between the last two snapshots
	began    bool
	lastKey  time.Duration
	state    state
	deflate  *flate.Writer
}

// EncoderOption changes what an [Encoder] does.
type EncoderOption func(*Encoder) error

// Queries records statement texts, which can contain personal data.
func Queries() EncoderOption {
	return func(e *Encoder) error {
		e.queries = true
		return nil
	}
}

// withClock sets the clock, for tests.
func withClock(now func() (time.Time, time.Duration)) EncoderOption {
	return func(e *Encoder) error {
		e.now = now
		return nil
	}
}

// NewEncoder returns an encoder whose first frame is a keyframe. A nil option is an error.
func NewEncoder(opts ...EncoderOption) (*Encoder, error) {
	start := time.Now()
	deflate, err := flate.NewWriter(nil, flate.DefaultCompression)
	if err != nil {
		return nil, fmt.Errorf("make an encoder of recordings: %w", err)
	}
	e := &Encoder{deflate: deflate, now: func() (time.Time, time.Duration) {
		now := time.Now()
		return now, now.Sub(start)
	}}
	for _, opt := range opts {
		if opt == nil {
			return nil, errors.New("make an encoder of recordings: an EncoderOption is nil")
		}
		if err := opt(e); err != nil {
			return nil, fmt.Errorf("make an encoder of recordings: %w", err)
		}
	}
	return e, nil
}

// Restart makes the next snapshot a keyframe, which can be read without the frames before it.
func (e *Encoder) Restart() { e.began = false }

// Encoded is the result of encoding a snapshot.
type Encoded struct {
	Info Info
	// Before are the frames that come before the snapshot's: Clock and Ended. Frame is the snapshot's.
	Before, Frame []byte
}

// Snapshot encodes a snapshot, and the process IDs of sessions that were found to have ended.
func (e *Encoder) Snapshot(s *monitor.Snapshot, ended []int32) (Encoded, error) {
	wall, elapsed := e.now()
	info := summary(s)
	info.Wall, info.Elapsed = wall, elapsed
	info.Type = TypeDelta
	if !e.began || elapsed-e.lastKey >= keyframeEvery || e.state.full() {
		info.Type = TypeKey
		e.state = newState(e.queries)
	}
	body, err := e.state.encode(e.recorded(s), info)
	if err != nil {
		e.began = false
		return Encoded{}, fmt.Errorf("record a snapshot: %w", err)
	}
	payload, err := e.compressed(info, body)
	if err != nil {
		e.began = false
		return Encoded{}, fmt.Errorf("record a snapshot: %w", err)
	}
	out := Encoded{Info: info, Before: e.jumps(info), Frame: appendFrame(nil, info.Type, payload)}
	if len(ended) > 0 {
		out.Before = appendJSON(out.Before, TypeEnded, endings{ended})
	}
	if info.Type == TypeKey {
		e.lastKey = elapsed
	}
	e.before, e.began = info, true
	return out, nil
}

// recorded returns a copy of a snapshot without the parts that are not recorded.
func (e *Encoder) recorded(s *monitor.Snapshot) *monitor.Snapshot {
	if e.queries {
		return s
	}
	stripped := *s
	stripped.Capacity.Top = slices.Clone(s.Capacity.Top)
	for i := range stripped.Capacity.Top {
		withoutQuery(&stripped.Capacity.Top[i].Session)
	}
	return &stripped
}

func (e *Encoder) compressed(info Info, body []byte) ([]byte, error) {
	if len(body) > maxBody {
		return nil, fmt.Errorf("it takes %d bytes, more than a frame may have", len(body))
	}
	b := bytes.NewBuffer(info.append(nil))
	e.deflate.Reset(b)
	if _, err := e.deflate.Write(body); err != nil {
		return nil, err
	}
	if err := e.deflate.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// jumps returns frames for the clocks that have jumped since the last snapshot.
func (e *Encoder) jumps(now Info) []byte {
	if e.before.At.IsZero() {
		return nil
	}
	var frames []byte
	passed := now.Elapsed - e.before.Elapsed
	for _, clock := range []struct {
		name  string
		by    time.Duration
		least time.Duration
	}{
		// A server that is slow to answer reads its clock long before the recorder does.
		{"server", now.At.Sub(e.before.At) - passed, jump + passed + e.interval},
		{"recorder", time.Duration(now.Wall.UnixNano()-e.before.Wall.UnixNano()) - passed, jump},
	} {
		if clock.by.Abs() >= clock.least {
			frames = appendJSON(frames, TypeClock, ClockJump{clock.name, clock.by.Seconds(), now.At, now.Wall.UTC()})
		}
	}
	e.interval = passed
	return frames
}

// appendJSON appends a frame with a value that can always be encoded.
func appendJSON(b []byte, t Type, value any) []byte {
	payload, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return appendFrame(b, t, payload)
}

func summary(s *monitor.Snapshot) Info {
	i := Info{At: s.TakenAt}
	for _, waiter := range s.Waiters() {
		i.Waiters++
		if waiter.WaitingSince != nil {
			i.Longest = max(i.Longest, s.TakenAt.Sub(*waiter.WaitingSince))
		}
	}
	for _, cycle := range s.Cycles {
		if cycle.Certain {
			i.Deadlocks++
		}
	}
	return i
}
