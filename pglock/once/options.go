package once

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Option configures one call.
type Option func(*config) error

type config struct {
	owners      []string
	fingerprint []byte
	maxWait     time.Duration
	bounded     bool
}

// Fingerprint says what was asked for, such as the body of the request. Its SHA-256 is recorded, and a later call with
// the same scope and id and other contents gets [ErrMismatch]. Where one of the two calls gives none, they are not
// compared.
func Fingerprint(contents []byte) Option {
	return func(c *config) error {
		sum := sha256.Sum256(contents)
		c.fingerprint = sum[:]
		return nil
	}
}

// MaxWait bounds the wait for another transaction that is at the same thing to d, in whole milliseconds, rounded up;
// then the error is a *[pglock.WaitError] that names it, and the transaction can go on. Zero does not wait longer than it
// takes to find out who it is. The default is to wait for as long as the context lasts. A negative d is an error.
func MaxWait(d time.Duration) Option {
	return func(c *config) error {
		if d < 0 {
			return fmt.Errorf("MaxWait(%v): the duration is negative", d)
		}
		c.maxWait, c.bounded = d, true
		return nil
	}
}

// WithTrustedOwner names roles whose schema pglock may be used, as [pglock.WithTrustedOwner] says for Lockers. Without it a
// schema that belongs to a role that is not trusted is not used: [pglock.ErrUntrusted]. An empty name is an error.
//
// Who owns what the schema reaches is looked up before its first use on a database, which is a round trip of its own, and
// then again each minute. In between each use makes sure that it is still the same schema.
func WithTrustedOwner(roles ...string) Option {
	return func(c *config) error {
		if slices.Contains(roles, "") {
			return errors.New("WithTrustedOwner: the name of a role is empty")
		}
		c.owners = append(c.owners, roles...)
		return nil
	}
}

// What a record has room for, in bytes.
const (
	maxScope = 256
	maxID    = 1024
)

func configure(scope, id string, opts []Option) (config, error) {
	if err := errors.Join(check("scope", scope, maxScope), check("id", id, maxID)); err != nil {
		return config{}, err
	}
	return options(opts)
}

func options(opts []Option) (config, error) {
	var c config
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

// check refuses what PostgreSQL's text cannot store, and what an index cannot.
func check(what, s string, most int) error {
	switch {
	case s == "":
		return fmt.Errorf("the %s is empty", what)
	case len(s) > most:
		return fmt.Errorf("the %s has %d bytes, and at most %d fit (hash what is longer)", what, len(s), most)
	case !utf8.ValidString(s) || strings.Contains(s, "\x00"):
		return fmt.Errorf("the %s %q is not valid UTF-8, or contains NUL", what, s)
	}
	return nil
}
