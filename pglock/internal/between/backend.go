package between

import (
	"context"

	"github.com/pglock-toolkit/pglock/internal/hooks"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// Backend is implemented by backends whose processes can see each other's waits.
type Backend interface {
	hooks.Placed
	// Look publishes text, which Text has made, in place of the last one, and looks.
	Look(ctx context.Context, text string) (Sight, error)
	// SeesRows reports whether Look shows the waits of locks in rows, besides those of sessions.
	SeesRows() bool
	// Published returns the key by which other processes know a lock of this backend.
	Published(key driver.KeyID) driver.KeyID
	// Owners returns by which sessions, or as which process, others see that g is held, and without g what a call holds by that
	// has got some keys and waits for the next.
	Owners(g driver.Grant) []string
}

// Progress is a [driver.LossHandler] of a call that waits. A backend that has owners without a grant tells it how many keys the
// call has got, the first of its keys. Another call of the process may hold the others.
type Progress interface{ Got(keys int) }
