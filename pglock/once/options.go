package once

import "github.com/pglock-toolkit/pglock/internal/options"

// Option configures a [Scope], or a call of [Prune].
type Option func(*config) error

type config struct{ owners []string }

// WithTrustedOwner names roles whose schema pglock may be used, as [pglock.WithTrustedOwner] says for Lockers. Without
// it, a schema that belongs to an untrusted role is not used: [pglock.ErrUntrusted]. An empty name is an error.
//
// The owners of everything in the schema are looked up before the first use on a database, in an extra round trip,
// and again every minute. In between, each use makes sure that it is still the same schema.
func WithTrustedOwner(roles ...string) Option {
	return func(c *config) error { return options.TrustOwners(&c.owners, roles) }
}

// The limits of a record, in bytes.
const (
	maxScope = 256
	maxID    = 1024
)
