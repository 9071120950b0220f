package recording

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/monitor"
)

// Line is a snapshot as it is recorded.
type Line struct {
	info Info
	text []byte
}

// note is a line that is not a snapshot. It has one of the fields.
type note struct {
	*About
	Ended  []int32 `json:"ended,omitempty"`
	Outage *Outage `json:"outage,omitempty"`
}

// Encode returns the line of a snapshot, and of the process IDs of sessions that were found to have ended. If queries is
// set it has the texts of statements, which can contain personal data.
func Encode(s *monitor.Snapshot, ended []int32, queries bool) (Line, error) {
	l := Line{info: infoOf(s)}
	var text bytes.Buffer
	if len(ended) > 0 {
		if err := json.NewEncoder(&text).Encode(note{Ended: ended}); err != nil {
			return l, err
		}
	}
	if !queries {
		s = withoutQueries(s)
	}
	versioned := *s
	versioned.Version = monitor.FormatVersion
	head := text.Len()
	err := json.NewEncoder(&text).Encode(&versioned)
	if err == nil {
		err = checkSize(text.Bytes()[head:])
	}
	if err != nil {
		return l, fmt.Errorf("record a snapshot: %w", err)
	}
	l.text = text.Bytes()
	return l, nil
}

// checkSize refuses lines that would take much more memory when decoded.
func checkSize(line []byte) error {
	if len(line) > maxLine || bytes.Count(line, []byte("{")) > maxObjects {
		return fmt.Errorf("%w: it has more than %d locks, holders, waiters and blockers, or %d MB", ErrTooLarge, maxObjects, maxLine>>20)
	}
	return nil
}

// snapshotStart is how the line of a snapshot begins, up to the time.
var snapshotStart = []byte(fmt.Sprintf(`{"version":%d,"taken_at":"`, monitor.FormatVersion))

// takenAt returns the time of a line if it is one of a snapshot. It does not read the rest.
func takenAt(line []byte) (at time.Time, ok bool) {
	rest, ok := bytes.CutPrefix(line, snapshotStart)
	if !ok {
		return at, false
	}
	text, _, _ := bytes.Cut(rest, []byte(`"`))
	at, err := time.Parse(time.RFC3339Nano, string(text))
	return at, err == nil
}

// decodeNote decodes a line that is not a snapshot.
func decodeNote(line []byte) (note, error) {
	var n note
	if err := json.Unmarshal(line, &n); err != nil {
		return n, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if n.About != nil && n.Version > Version {
		return n, fmt.Errorf("%w: it has version %d of the format, and this pglock reads %d", errVersion, n.Version, Version)
	}
	clean(reflect.ValueOf(&n))
	return n, nil
}

func decodeSnapshot(line []byte) (*monitor.Snapshot, error) {
	if err := checkSize(line); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	var s monitor.Snapshot
	if err := json.Unmarshal(line, &s); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	clean(reflect.ValueOf(&s))
	return &s, nil
}

// clean makes all texts in a value printable: a recording may come from a stranger, and a terminal obeys what it is sent.
func clean(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		if text := v.String(); v.CanSet() && !plain(text) {
			v.SetString(view.Printable(text))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			clean(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			clean(v.Field(i))
		}
	case reflect.Slice:
		for i := range v.Len() {
			clean(v.Index(i))
		}
	default: // the other kinds in a snapshot have no text
	}
}

// plain reports whether a text is printable ASCII.
func plain(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}
