package migrations

import "github.com/pglock-toolkit/pglock/internal/options"

// Option changes what [Up], [Down] and [Version] do.
type Option func(*config) error

type config struct {
	trusted []string
}

// WithTrustedOwner names roles that may own the schema, or something in it. Using an object can execute its owner's
// code with the rights of the current role. So the schema of any other role is refused, with an error that matches
// pglock.ErrUntrusted. The current role and superusers are trusted without being named; after SET ROLE only
// superusers. It is an error if a role does not exist, or has no name.
func WithTrustedOwner(roles ...string) Option {
	return func(c *config) error { return options.TrustOwners(&c.trusted, roles) }
}
