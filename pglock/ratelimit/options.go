package ratelimit

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pglock-toolkit/pglock/pglock"
)

// Option configures a [Limiter].
type Option func(*config) error

type config struct {
	owners  []string
	timeout time.Duration
	outage  Policy

	observer *pglock.Observer
}

// Policy says what a Limiter does while its server cannot be reached.
type Policy int

// The policies.
const (
	// Fail returns an error that matches [pglock.ErrUnavailable] or [pglock.ErrStandby], and leaves the decision to the
	// caller. It is the default.
	Fail Policy = iota
	// Permit lets everything through, without a limit.
	Permit
	// Refuse lets nothing through.
	Refuse
)

// OnOutage says what to do while the server cannot be reached, does not answer within [Timeout], cancels the statement
// (statement_timeout or lock_timeout of the role, pg_cancel_backend), or is a standby ([pglock.ErrStandby]), to which the
// address may lead for a while during a failover. With Permit the call returns no error, and with Refuse a
// *[RefusedError]; [Decision.Outage] says why the server could not be asked. Other errors, such as a missing schema, [pglock.ErrDenied] and
// a full lock table ([pglock.ErrTooManyLocks]), are returned as usual.
//
// An address that always leads to a standby, or a session that is read-only by default, is an outage without an end: watch
// [Decision.Outage].
func OnOutage(p Policy) Option {
	return func(c *config) error {
		if p < Fail || p > Refuse {
			return fmt.Errorf("OnOutage: there is no policy %d", p)
		}
		c.outage = p
		return nil
	}
}

// Timeout bounds how long the server may take to answer; after that it counts as unreachable. The default is a second.
// A d that is not positive is an error.
func Timeout(d time.Duration) Option {
	return func(c *config) error {
		if d <= 0 {
			return fmt.Errorf("Timeout(%v): the duration is not positive", d)
		}
		c.timeout = d
		return nil
	}
}

// WithTrustedOwner names roles whose schema pglock may be used, as [pglock.WithTrustedOwner] says for Lockers. Without
// it, a schema that belongs to an untrusted role is not used: [pglock.ErrUntrusted]. The owners are looked up before
// the first use and then every minute. An empty name is an error, and so is the option on Redis.
func WithTrustedOwner(roles ...string) Option {
	return func(c *config) error {
		if slices.Contains(roles, "") {
			return errors.New("WithTrustedOwner: the name of a role is empty")
		}
		c.owners = append(c.owners, roles...)
		return nil
	}
}

// WithObserver reports each call to the Recorded function of o. A nil observer is an error.
func WithObserver(o *pglock.Observer) Option {
	return func(c *config) error {
		if o == nil {
			return errors.New("WithObserver: the observer is nil")
		}
		c.observer = o
		return nil
	}
}

func newConfig(opts []Option) (config, error) {
	c := config{timeout: time.Second}
	for _, opt := range opts {
		if opt == nil {
			return c, errors.New("an Option is nil")
		}
		if err := opt(&c); err != nil {
			return c, err
		}
	}
	return c, nil
}
