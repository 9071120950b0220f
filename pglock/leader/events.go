package leader

import "github.com/pglock-toolkit/pglock/internal/hooks"

// EventType says what happened.
type EventType string

const (
	// EventElected: this process leads. It comes before lead is called.
	EventElected EventType = "elected"
	// EventEnded: this process no longer leads: lead has returned, and the lock has been unlocked or lost. Err says
	// why; it is nil if lead returned nil by itself.
	EventEnded EventType = "ended"
	// EventUnavailable: a campaign failed, for instance since the server could not be reached; Err says why. The
	// elector keeps trying. It is reported once per outage.
	EventUnavailable EventType = "unavailable"
)

// Event is something that happened to an [Elector].
type Event struct {
	Type EventType
	// Err is set for EventEnded and EventUnavailable.
	Err error
}

// report reports an event. All events of a Run come from its goroutine.
func (e *Elector) report(t EventType, err error) {
	if e.config.onEvent != nil {
		e.config.onEvent(Event{t, err})
	}
}

// warn logs a problem, unless [WithEvents] was given.
func (e *Elector) warn(message string, err error) {
	if e.config.onEvent == nil {
		hooks.Logger(e.locker).Warn(message, "key", e.key, "error", err)
	}
}
