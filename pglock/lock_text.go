package pglock

import (
	"errors"
)

// String returns the lock's key, and whether it is held, lost or unlocked.
func (l *Lock) String() string {
	keys := l.Keys()
	return "lock " + keyText(keys[0], len(keys)-1) + ", " + l.state()
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
