package migrations

import (
	"errors"
	"slices"
)

// Option changes what [Up], [Down] and [Version] do.
type Option func(*options) error

type options struct {
	trusted []string
}

func newOptions(opts []Option) (o options, err error) {
	for _, opt := range opts {
		if opt == nil {
			return o, errors.New("an Option is nil")
		}
		if err := opt(&o); err != nil {
			return o, err
		}
	}
	return o, nil
}

// WithTrustedOwner names roles that may own the schema, or something in it. Using an object can execute its owner's
// code with the rights of the current role, so a schema of any other role is not used, and the error matches
// pglock.ErrUntrusted. The current role and superusers are trusted without being named; after SET ROLE only superusers.
// It is an error if a role does not exist, or has no name.
func WithTrustedOwner(roles ...string) Option {
	return func(o *options) error {
		if slices.Contains(roles, "") {
			return errors.New("WithTrustedOwner: the name of a role is empty")
		}
		o.trusted = append(o.trusted, roles...)
		return nil
	}
}
