package leader

import (
	"errors"
	"fmt"
	"time"
)

// Option configures an [Elector].
type Option func(*config) error

type config struct {
	minPause, maxPause time.Duration
	onEvent            func(Event)
}

const (
	defaultMinPause = 100 * time.Millisecond
	defaultMaxPause = 5 * time.Second
)

// WithBackoff sets the pauses between campaigns: shortest after a term that ended without an error, then doubling, with
// jitter, up to longest while campaigns or terms keep failing. A term of more than longest resets the pause to
// shortest. The default is 100 ms to 5 s. It is an error if shortest is not positive or longest is less than
// shortest.
func WithBackoff(shortest, longest time.Duration) Option {
	return func(c *config) error {
		if shortest <= 0 || longest < shortest {
			return fmt.Errorf("WithBackoff(%v, %v): want 0 < shortest <= longest", shortest, longest)
		}
		c.minPause, c.maxPause = shortest, longest
		return nil
	}
}

// WithEvents calls fn for every [Event], one at a time, in the order in which they happened. The elector waits for fn,
// except to end lead's context. So fn should be quick, and must not wait for the end of the term, as [Elector.Resign]
// does. An elector with this option logs nothing; see [Elector.Run]. A nil fn is an error.
func WithEvents(fn func(Event)) Option {
	return func(c *config) error {
		if fn == nil {
			return errors.New("WithEvents: the function is nil")
		}
		c.onEvent = fn
		return nil
	}
}
