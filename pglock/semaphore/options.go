package semaphore

import (
	"errors"
	"fmt"
	"time"
)

// Option configures a [Semaphore].
type Option func(*config) error

type config struct {
	pollEvery time.Duration
}

const (
	minPollEvery = 20 * time.Millisecond
	keepGateFor  = 20 * time.Millisecond // how long a process may go on serving its own waiters
	firstLook    = 32                    // the part of pollEvery that the first pause between two looks is
)

func newConfig(opts []Option) (config, error) {
	c := config{pollEvery: minPollEvery}
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

// PollEvery sets how often the process at the head of the line asks the server for a free slot while there is none. The
// default, which is also the minimum, is 20 ms; a longer pause is cheaper for the server and wakes the next holder
// later. A shorter one is an error. The first pause is a 32nd of it, and each further one a quarter longer, since others give
// slots back all the time where many wait.
func PollEvery(d time.Duration) Option {
	return func(c *config) error {
		if d < minPollEvery {
			return fmt.Errorf("pglock/semaphore: PollEvery(%v): the least is %v", d, minPollEvery)
		}
		c.pollEvery = d
		return nil
	}
}
