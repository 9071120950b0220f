package ratelimit

import (
	"fmt"
	"time"

	"github.com/pglock-toolkit/pglock/internal/options"
	"github.com/pglock-toolkit/pglock/pglock"
)

// Option configures a [Limiter].
type Option func(*config) error

type config struct {
	owners   []string
	timeout  time.Duration
	observer pglock.Observer
}

const defaultTimeout = time.Second

// WithTimeout bounds how long the server may take to answer; after that the error matches [pglock.ErrUnavailable]. The
// default is a second. A d that is not positive is an error.
func WithTimeout(d time.Duration) Option {
	return func(c *config) error {
		if d <= 0 {
			return fmt.Errorf("WithTimeout(%v): the duration is not positive", d)
		}
		c.timeout = d
		return nil
	}
}

// WithTrustedOwner names roles whose schema pglock may be used, as [pglock.WithTrustedOwner] says for Lockers. Without
// it, a schema that belongs to an untrusted role is not used: [pglock.ErrUntrusted]. The owners are looked up before
// the first use and then every minute. An empty name is an error, and so is the option on Redis.
func WithTrustedOwner(roles ...string) Option {
	return func(c *config) error { return options.TrustOwners(&c.owners, roles) }
}

// WithObserver reports each call to o, as an EventRecorded. A nil observer is none.
func WithObserver(o pglock.Observer) Option {
	return func(c *config) error {
		c.observer = o
		return nil
	}
}
