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
	// Owner returns by which session, or as which process, others see that g is held.
	Owner(g driver.Grant) string
}
