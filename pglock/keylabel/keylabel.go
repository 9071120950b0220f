// Package keylabel is for adapters of metrics: it says what the locks of events are for, in few words.
package keylabel

import (
	"github.com/pglock-toolkit/pglock/internal/hooks"
	"github.com/pglock-toolkit/pglock/pglock"
)

// Key returns the key of what a lock is for: its own, the first of several, or that of the primitive that uses it.
func Key(keys []pglock.Key, use pglock.Use) pglock.Key {
	if use.Kind == pglock.UseLock && len(keys) > 0 {
		return keys[0]
	}
	return use.Key
}

// Internal reports whether a primitive takes the lock for its own purposes, which its users do not see.
func Internal(use pglock.Use) bool {
	return hooks.IsInternal(string(use.Kind))
}

// Use returns a label that says what a lock is for.
func Use(use pglock.Use) string {
	switch use.Kind {
	case pglock.UseLock:
		return "lock"
	case pglock.UsePermit:
		return "permit"
	}
	return string(use.Kind)
}
