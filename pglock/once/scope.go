package once

import (
	"crypto/sha256"
	"fmt"

	"github.com/pglock-toolkit/pglock/internal/options"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/internal/records"
)

// Scope is a kind of work, of which each piece is done once. Make it with [New]; that costs nothing, so a program may
// have many. All methods may be called concurrently.
type Scope struct {
	key         pglock.Key
	name        string // the key's text, under which work is recorded
	owners      []string
	fingerprint []byte
}

// New returns the scope named by key: the name of a consumer, or an HTTP route and the account. What is done is
// recorded under the key's text, [pglock.Key.String], which has at most 256 bytes of UTF-8 without NUL. Scopes with
// equal keys in one database are one scope, in all processes; a lock of that key is unrelated. The monitor shows the
// advisory lock of each piece of work as "once:", the scope's text, a slash and the id.
func New(key pglock.Key, opts ...Option) (*Scope, error) {
	if err := key.Check(); err != nil {
		return nil, fmt.Errorf("pglock/once: %w", err)
	}
	var c config
	err := options.Apply(&c, opts)
	if err == nil {
		err = records.CheckText("scope", key.String(), maxScope)
	}
	if err != nil {
		return nil, fmt.Errorf("pglock/once: %w", err)
	}
	return &Scope{key: key, name: key.String(), owners: c.owners}, nil
}

// Matching returns s for a request with these contents, such as its body. Their SHA-256 is recorded, and a later call
// with the same id but other contents gets [ErrMismatch]. They are not compared if either call has none.
func (s *Scope) Matching(contents []byte) *Scope {
	sum := sha256.Sum256(contents)
	matching := *s
	matching.fingerprint = sum[:]
	return &matching
}
