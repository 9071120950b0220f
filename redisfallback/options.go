package redisfallback

import (
	"fmt"
	"time"
)

// Option is an option of [NewBackend]. [New] and [NewRedlock] take those of a Locker only.
type Option func(*config) error

type config struct {
	prefix  string
	timeout time.Duration
}

// WithKeyPrefix sets the prefix of Redis keys: a lock's key is the prefix and its name. The default is "pglock:". With
// the empty prefix a lock has the same Redis key as a redis-py, redsync or bsm/redislock lock of the same name, and
// excludes it. Processes that share locks need the same prefix.
func WithKeyPrefix(prefix string) Option {
	return func(c *config) error {
		c.prefix = prefix
		return nil
	}
}

// WithNodeTimeout bounds how long one node may take to answer before it counts as down. The default is a third of
// the lease, at most 4 s. For Redlock, where other nodes can answer in its place, it is a twentieth of the lease.
// The timeouts of the client itself apply too. It is an error if d is not positive.
func WithNodeTimeout(d time.Duration) Option {
	return func(c *config) error {
		if d <= 0 {
			return fmt.Errorf("WithNodeTimeout(%v): the duration is not positive", d)
		}
		c.timeout = d
		return nil
	}
}
