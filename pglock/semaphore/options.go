package semaphore

import (
	"errors"
	"fmt"
	"time"
)

// Option configures a [Semaphore].
type Option func(*config) error

type config struct {
	lookEvery time.Duration
}

const (
	minLookEvery = 20 * time.Millisecond
	keepGateFor  = 20 * time.Millisecond // how long a process may serve one of its waiters after the other
)

func newConfig(opts []Option) (config, error) {
	c := config{lookEvery: minLookEvery}
	for _, opt := range opts {
		if opt == nil {
			return c, errors.New("pglock/semaphore: an Option is nil")
		}
		if err := opt(&c); err != nil {
			return c, err
		}
	}
	return c, nil
}

// LookEvery sets how often the process at the head of the line asks the server for a free slot while there is none. The
// default, and the least, is 20 ms; a longer pause costs the server less and wakes the next holder later. A shorter one
// is an error.
func LookEvery(d time.Duration) Option {
	return func(c *config) error {
		if d < minLookEvery {
			return fmt.Errorf("pglock/semaphore: LookEvery(%v): the least is %v", d, minLookEvery)
		}
		c.lookEvery = d
		return nil
	}
}
