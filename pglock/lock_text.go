package pglock

import (
	"errors"
	"log/slog"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// String says which lock it is, and whether it is held, lost or unlocked.
func (k *Lock) String() string {
	keys := k.Keys()
	return "lock " + keyText(keys[0], len(keys)-1) + ", " + k.state()
}

// LogValue implements [slog.LogValuer]: the key, how many others there are, the token, the state, and while the lock is
// held for how long it has been.
func (k *Lock) LogValue() slog.Value {
	keys, state := k.Keys(), k.state()
	attrs := []slog.Attr{slog.Any("key", keys[0])}
	if more := len(keys) - 1; more > 0 {
		attrs = append(attrs, slog.Int("more", more))
	}
	attrs = append(attrs, slog.String("token", k.Token()), slog.String("state", state))
	if state == stateHeld {
		attrs = append(attrs, slog.Duration("held", driver.Now().Sub(k.since)))
	}
	return slog.GroupValue(attrs...)
}

func (k *Lock) state() string {
	switch err := k.Err(); {
	case err == nil:
		return stateHeld
	case errors.Is(err, ErrUnlocked):
		return "unlocked"
	default:
		return "lost"
	}
}

const stateHeld = "held"
