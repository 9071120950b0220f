// Package options applies options.
package options

import "errors"

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
