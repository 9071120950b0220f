package monitor

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// SessionRef identifies a session, so that a signal cannot reach a later session with the same process ID. It consists
// of the process ID and the time when the session began. If the role may not see that time, a fingerprint of the
// session's user, application and held keys takes its place. That is weaker: another session can have the same
// fingerprint, and a session's fingerprint changes with its locks.
type SessionRef struct {
	// PID is the process ID of the session's backend.
	PID int32
	// Since is when the session began, or the zero time if that is hidden.
	Since time.Time
	// Fingerprint is empty if Since is known.
	Fingerprint string
}

func bind(c SignalTarget) SessionRef {
	if c.Since != nil {
		return SessionRef{PID: c.PID, Since: *c.Since}
	}
	return SessionRef{PID: c.PID, Fingerprint: fingerprint(c)}
}

// fingerprint is short, since it is only meant to prevent mistakes.
func fingerprint(c SignalTarget) string {
	const size = 8
	hash := sha256.New()
	_, _ = fmt.Fprintf(hash, "%q %q", c.User, c.Application) // a hash does not fail
	for _, lock := range c.Holds {
		_, _ = fmt.Fprintf(hash, " %d/%d/%d", lock.DatabaseOID, lock.Objsubid, lock.Number)
	}
	return hex.EncodeToString(hash.Sum(nil)[:size])
}

// String returns the reference in the form that [ParseSessionRef] reads: "4711@2026-11-20T20:47:59.123456Z", with the
// time as in "session_since" of a snapshot's JSON, or "4711#1f3a9c42d07e55aa".
func (b SessionRef) String() string {
	if b.Since.IsZero() {
		return fmt.Sprintf("%d#%s", b.PID, b.Fingerprint)
	}
	return fmt.Sprintf("%d@%s", b.PID, b.Since.UTC().Format(time.RFC3339Nano))
}

// Equal reports whether both identify the same session.
func (b SessionRef) Equal(other SessionRef) bool {
	return b.PID == other.PID && b.Since.Equal(other.Since) && b.Fingerprint == other.Fingerprint
}

// ParseSessionRef parses the text of String. The time may be in any zone of RFC 3339.
func ParseSessionRef(text string) (SessionRef, error) {
	b, err := parseSessionRef(text)
	if err != nil {
		return SessionRef{}, fmt.Errorf("monitor: cannot read the session %q: %w "+
			"(want PID@SESSION_SINCE, such as 4711@2026-11-20T20:47:59.123456Z, or PID#FINGERPRINT)", text, err)
	}
	return b, nil
}

func parseSessionRef(text string) (b SessionRef, err error) {
	end := strings.IndexAny(text, "@#")
	if end < 0 {
		return b, errors.New("there is neither a time nor a fingerprint")
	}
	pid, err := strconv.ParseInt(text[:end], 10, 32)
	if err != nil || pid <= 0 {
		return b, errors.New("it does not begin with a process ID")
	}
	b.PID = int32(pid)
	if text[end] == '#' {
		b.Fingerprint = text[end+1:]
		if _, err := hex.DecodeString(b.Fingerprint); err != nil || b.Fingerprint == "" {
			return b, errors.New("the fingerprint is not hexadecimal")
		}
		return b, nil
	}
	if b.Since, err = time.Parse(time.RFC3339Nano, text[end+1:]); err != nil {
		return b, errors.New("the time is not in the form of RFC 3339")
	}
	return b, nil
}
