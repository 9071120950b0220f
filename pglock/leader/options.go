package leader

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// Option configures an [Elector].
type Option func(*config) error

type config struct {
	minPause, maxPause time.Duration
	eligible           func(context.Context) bool
	onEvent            func(Event)
	observeEvery       time.Duration
	identity           string
}

const (
	defaultMinPause = 100 * time.Millisecond
	defaultMaxPause = 5 * time.Second
	defaultObserve  = 5 * time.Second
	eligibleEvery   = time.Second
)

func newConfig(opts []Option) (config, error) {
	c := config{minPause: defaultMinPause, maxPause: defaultMaxPause, observeEvery: defaultObserve}
	for _, opt := range opts {
		if opt == nil {
			return c, errors.New("pglock/leader: an Option is nil")
		}
		if err := opt(&c); err != nil {
			return c, err
		}
	}
	if c.identity == "" {
		c.identity = processIdentity()
	}
	return c, nil
}

// processIdentity is the name of this process unless [Identity] sets another.
func processIdentity() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown-host" // the process ID and the random end of a token still tell processes apart
	}
	return fmt.Sprintf("%s:%d", host, os.Getpid())
}

// Backoff sets the pauses between campaigns: shortest after a term that ended without an error, then doubling, with
// jitter, up to longest while campaigns or terms keep failing. A term of more than longest resets the pause to
// shortest. The default is 100 ms to 5 s. It is an error if shortest is not positive or longest is less than
// shortest.
func Backoff(shortest, longest time.Duration) Option {
	return func(c *config) error {
		if shortest <= 0 || longest < shortest {
			return fmt.Errorf("pglock/leader: Backoff(%v, %v): want 0 < shortest <= longest", shortest, longest)
		}
		c.minPause, c.maxPause = shortest, longest
		return nil
	}
}

// Eligible makes the elector ask fn whether this process may lead: before each campaign, and every second while it
// waits or leads. When fn returns false, the process leaves the queue, or its term ends with [ErrIneligible] as the
// cause; it campaigns again when fn returns true. Only one goroutine of the elector calls fn at a time, with a context
// that ends with the campaign or term. The default is that every process may lead. A nil fn is an error.
func Eligible(fn func(ctx context.Context) bool) Option {
	return func(c *config) error {
		if fn == nil {
			return errors.New("pglock/leader: Eligible: the function is nil")
		}
		c.eligible = fn
		return nil
	}
}

// OnEvent calls fn for every [Event], one at a time, in the order in which they happened. The elector waits for fn,
// except to end lead's context. So fn should be quick, and must not wait for the end of the term, as [Elector.Resign]
// does. An elector with OnEvent logs nothing; see [Elector.Run]. A nil fn is an error.
func OnEvent(fn func(Event)) Option {
	return func(c *config) error {
		if fn == nil {
			return errors.New("pglock/leader: OnEvent: the function is nil")
		}
		c.onEvent = fn
		return nil
	}
}

// ObserveEvery sets how often an elector that does not lead asks the server who does, for the events [NewLeader] and
// [NoLeader]. The default is 5 s. It asks only if events are wanted, by [OnEvent] or a loop over [Elector.Events]. On
// PostgreSQL each question reads pg_locks. It is an error if d is not positive.
func ObserveEvery(d time.Duration) Option {
	return func(c *config) error {
		if d <= 0 {
			return fmt.Errorf("pglock/leader: ObserveEvery(%v): the interval is not positive", d)
		}
		c.observeEvery = d
		return nil
	}
}

// Identity names this process in the tokens of its terms, followed by a slash and random letters. Backends whose server
// stores tokens (Redis) show it in [Elector.Leader]; on PostgreSQL the application name serves that purpose. The
// default is the host name and the process ID. An empty name is an error.
func Identity(name string) Option {
	return func(c *config) error {
		if name == "" {
			return errors.New("pglock/leader: Identity: the name is empty")
		}
		c.identity = name
		return nil
	}
}
