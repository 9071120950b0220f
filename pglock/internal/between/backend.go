package between

import (
	"context"

	"github.com/pglock-toolkit/pglock/internal/hooks"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// Board is where processes see each other's waits.
type Board interface {
	// Look publishes text, which Text has made, in place of the last one, and looks.
	Look(ctx context.Context, text string) (Sight, error)
	// Withdraw publishes nothing any more.
	Withdraw(ctx context.Context) error
	// CancelTx ends a transaction's wait for a lock. When it has returned, no later statement is cancelled.
	CancelTx(ctx context.Context, tx Tx) error
}

// Backend is implemented by backends whose processes can see each other's waits.
type Backend interface {
	hooks.Placed
	Board() Board
	// SeesRows reports whether the Board shows the waits of locks in rows, besides those of sessions.
	SeesRows() bool
	// Published returns the key by which other processes know a lock of this backend.
	Published(key driver.KeyID) driver.KeyID
	// Owners returns by which sessions, or as which process, others see that g is held, and without g what a call may hold by
	// that waits for its next key.
	Owners(g driver.Grant) []string
}
