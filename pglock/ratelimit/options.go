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
	owners  []string
	timeout time.Duration
	outage  Policy

	observer pglock.Observer
}

const defaultTimeout = time.Second

// Policy says what a Limiter does while its server cannot be reached.
type Policy int

// The policies.
const (
	// PolicyFail returns an error that matches [pglock.ErrUnavailable] or [pglock.ErrStandby], and leaves the decision
	// to the caller. It is the default.
	PolicyFail Policy = iota
	// PolicyPermit lets everything through, without a limit.
	PolicyPermit
	// PolicyRefuse lets nothing through.
	PolicyRefuse
)

// WithOutage says what to do during an outage: while the server cannot be reached, does not answer within
// [WithTimeout], or cancels the statement (statement_timeout or lock_timeout of the role, pg_cancel_backend). A
// standby ([pglock.ErrStandby]) is one too, since during a failover the address may lead to it. With PolicyPermit
// the call returns no error, and with PolicyRefuse a *[RefusedError]; [Decision.Outage] says why the server could
// not be asked. Other errors, such as a missing schema, [pglock.ErrDenied] and a full lock table
// ([pglock.ErrTooManyLocks]), are returned as usual.
//
// An address that always leads to a standby, or a session that is read-only by default, is an outage without an end:
// watch [Decision.Outage].
func WithOutage(p Policy) Option {
	return func(c *config) error {
		if p < PolicyFail || p > PolicyRefuse {
			return fmt.Errorf("WithOutage: there is no policy %d", p)
		}
		c.outage = p
		return nil
	}
}

// WithTimeout bounds how long the server may take to answer; after that it counts as unreachable. The default is a
// second. A d that is not positive is an error.
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
