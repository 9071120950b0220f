package once

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pglock-toolkit/pglock/internal/shorttext"
)

// Option configures one call.
type Option func(*config) error

type config struct {
	owners      []string
	fingerprint []byte
	maxWait     time.Duration
	bounded     bool
}

// Fingerprint gives the contents of the request, such as its body. Their SHA-256 is recorded, and a later call with
// the same scope and id but other contents gets [ErrMismatch]. If either call gives none, they are not compared.
func Fingerprint(contents []byte) Option {
	return func(c *config) error {
		sum := sha256.Sum256(contents)
		c.fingerprint = sum[:]
		return nil
	}
}

// MaxWait sets how long to wait for another transaction that does the same work: at most d, rounded up to whole
// milliseconds. After that the error is a *[pglock.WaitError] that names the other, and the transaction can continue.
// If d is zero, the call waits only until it has found out which transaction that is. The default is to wait until the
// context ends. A negative d is an error.
func MaxWait(d time.Duration) Option {
	return func(c *config) error {
		if d < 0 {
			return fmt.Errorf("MaxWait(%v): the duration is negative", d)
		}
		c.maxWait, c.bounded = d, true
		return nil
	}
}

// WithTrustedOwner names roles whose schema pglock may be used, as [pglock.WithTrustedOwner] says for Lockers. Without
// it, a schema that belongs to an untrusted role is not used: [pglock.ErrUntrusted]. An empty name is an error.
//
// The owners of everything the schema reaches are looked up before the first use on a database, in an extra round trip,
// and again every minute. In between, each use makes sure that it is still the same schema.
func WithTrustedOwner(roles ...string) Option {
	return func(c *config) error {
		if slices.Contains(roles, "") {
			return errors.New("WithTrustedOwner: the name of a role is empty")
		}
		c.owners = append(c.owners, roles...)
		return nil
	}
}

// The limits of a record, in bytes.
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

// check refuses what PostgreSQL's text or an index cannot store.
func check(what, s string, most int) error {
	switch {
	case s == "":
		return fmt.Errorf("the %s is empty", what)
	case len(s) > most:
		return fmt.Errorf("the %s has %d bytes, and at most %d fit (use a hash instead)", what, len(s), most)
	case !utf8.ValidString(s) || strings.Contains(s, "\x00"):
		return fmt.Errorf("the %s %s is not valid UTF-8, or contains NUL", what, shorttext.Quote(s))
	}
	return nil
}
