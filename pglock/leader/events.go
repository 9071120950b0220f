package leader

import (
	"fmt"
	"iter"
	"log/slog"
	"time"

	"github.com/pglock-toolkit/pglock/internal/hooks"
	"github.com/pglock-toolkit/pglock/internal/shorttext"
	"github.com/pglock-toolkit/pglock/pglock"
)

// EventType says what happened.
type EventType string

const (
	// Elected: this process leads. It comes before lead is called.
	Elected EventType = "elected"
	// Ended: this process no longer leads: lead has returned, and the lock has been unlocked or lost. Err says why;
	// it is nil if lead returned nil by itself.
	Ended EventType = "ended"
	// NewLeader: another process was seen to lead; Leader says which. On a server that does not report tokens
	// (PostgreSQL) it can be this process, a moment before Elected.
	NewLeader EventType = "new-leader"
	// NoLeader: there was no leader.
	NoLeader EventType = "no-leader"
	// Unavailable: the server could not be asked, or a campaign failed; Err says why. The elector keeps trying. It
	// is reported once per outage.
	Unavailable EventType = "unavailable"
)

// Event is something that an [Elector] learned. An elector asks the server at intervals (see [ObserveEvery]) and can
// miss what happens in between: a shorter term of another process, or the change between two terms of one session,
// which look like one.
type Event struct {
	Type EventType
	// Key is the key of the election.
	Key pglock.Key
	// Time is when this process learned of it.
	Time time.Time
	// Leader is the new leader, for NewLeader.
	Leader pglock.Holder
	// Err is set for Ended and Unavailable.
	Err error
}

// String describes the event in a few words.
func (e Event) String() string {
	text := fmt.Sprintf("%s %s", e.Type, shorttext.Quote(e.Key.String()))
	if e.Type == NewLeader {
		text += fmt.Sprintf(": pid %d, application %s, token %s", e.Leader.PID,
			shorttext.Quote(e.Leader.Application), shorttext.Quote(e.Leader.Token))
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// LogValue implements [slog.LogValuer].
func (e Event) LogValue() slog.Value {
	attrs := []slog.Attr{slog.String("type", string(e.Type)), slog.String("key", e.Key.String())}
	if e.Type == NewLeader {
		attrs = append(attrs, slog.Int("pid", int(e.Leader.PID)), slog.String("application", e.Leader.Application),
			slog.String("token", e.Leader.Token))
	}
	if e.Err != nil {
		attrs = append(attrs, slog.String("error", e.Err.Error()))
	}
	return slog.GroupValue(attrs...)
}

// Events returns an iterator over what the elector learns from now on, beginning with the last event of the current Run
// if there was one. The sequence ends when Run returns. If Run is not running, the loop waits for the next Run. Any
// number of loops may run at the same time. A slow loop delays nothing: events are kept for it.
func (e *Elector) Events() iter.Seq[Event] {
	return func(yield func(Event) bool) {
		e.mu.Lock()
		at := e.events.last
		e.listeners++
		e.mu.Unlock()
		e.look()
		defer func() {
			e.mu.Lock()
			e.listeners--
			e.mu.Unlock()
		}()
		for ; at != nil; at = at.following() {
			if at.event.Type != "" && !yield(at.event) {
				return
			}
		}
	}
}

// stream is a list of events that readers follow at their own pace. Events that all readers have passed are
// garbage-collected.
type stream struct{ last *link }

type link struct {
	event Event         // of type "" in the first one
	ready chan struct{} // closed when next is known
	next  *link         // nil at the end of the stream
}

func newStream() stream { return stream{&link{ready: make(chan struct{})}} }

// following waits for the next link and returns it, or nil at the end of the stream.
func (l *link) following() *link {
	<-l.ready
	return l.next
}

func (s *stream) add(event Event) {
	old := s.last
	s.last = &link{event: event, ready: make(chan struct{})}
	old.next = s.last
	close(old.ready)
}

func (s *stream) end() { close(s.last.ready) }

// report notifies all listeners, in the order of the calls.
//
// worth reports whether the event is still worth reporting. It runs under mu and may be nil. An answer from the server
// that arrives after this process was elected is out of date and dropped.
func (e *Elector) report(event Event, worth func() bool) (news bool) {
	e.reporting.Lock()
	defer e.reporting.Unlock()
	event.Key, event.Time = e.key, time.Now()
	e.mu.Lock()
	if worth != nil && !worth() {
		e.mu.Unlock()
		return false
	}
	e.events.add(event)
	e.mu.Unlock()
	if e.config.onEvent != nil {
		e.config.onEvent(event)
	}
	return true
}

// warn logs a problem, unless [OnEvent] was given.
func (e *Elector) warn(message string, err error) {
	if e.config.onEvent == nil {
		hooks.Logger(e.locker).Warn(message, "key", e.key, "error", err)
	}
}
