package pglock

import (
	"errors"
	"log/slog"

	"github.com/pglock-toolkit/pglock/internal/shorttext"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// String returns the lock's key, and whether it is held, lost or unlocked.
func (l *Lock) String() string {
	keys := l.Keys()
	return "lock " + keyText(keys[0], len(keys)-1) + ", " + l.state()
}

// LogValue implements [slog.LogValuer]: the key, how many others there are, the token, the state and, while the lock
// is held, for how long.
func (l *Lock) LogValue() slog.Value {
	keys, state := l.Keys(), l.state()
	attrs := []slog.Attr{slog.Any("key", keys[0])}
	if more := len(keys) - 1; more > 0 {
		attrs = append(attrs, slog.Int("more", more))
	}
	attrs = append(attrs, slog.String("token", shorttext.Value(l.Token())), slog.String("state", state))
	if state == stateHeld {
		attrs = append(attrs, slog.Duration("held", driver.Now().Sub(l.since)))
	}
	return slog.GroupValue(attrs...)
}

func (l *Lock) state() string {
	switch err := l.Err(); {
	case err == nil:
		return stateHeld
	case errors.Is(err, ErrUnlocked):
		return "unlocked"
	default:
		return "lost"
	}
}

const stateHeld = "held"
