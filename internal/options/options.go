// Package options applies options.
package options

import (
	"errors"
	"slices"
)

// Apply applies opts to config, until one of them is refused.
func Apply[C any, O ~func(*C) error](config *C, opts []O) error {
	for _, opt := range opts {
		if opt == nil {
			return errors.New("an Option is nil")
		}
		if err := opt(config); err != nil {
			return err
		}
	}
	return nil
}

// TrustOwners adds roles to those that an option WithTrustedOwner has named.
func TrustOwners(named *[]string, roles []string) error {
	if slices.Contains(roles, "") {
		return errors.New("WithTrustedOwner: the name of a role is empty")
	}
	*named = append(*named, roles...)
	return nil
}
