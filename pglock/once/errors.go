package once

import (
	"errors"
	"fmt"
	"time"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/internal/shorttext"
	"github.com/pglock-toolkit/pglock/pglock"
)

// ErrMismatch: the same id was used for other contents, see [Scope.Matching]. Either the caller has a bug, or
// another client is guessing ids.
var ErrMismatch = errors.New("already done for other contents")

// DoneError says what was done, and when. It matches [pglock.ErrDone], or [ErrMismatch].
type DoneError struct {
	// Scope and ID identify the work.
	Scope, ID string
	// At is when it was recorded, by the server's clock.
	At time.Time

	err error // pglock.ErrDone or ErrMismatch
}

func (e *DoneError) Error() string {
	return fmt.Sprintf("pglock/once: %s of %s at %s: %v",
		shorttext.Quote(e.ID), shorttext.Quote(e.Scope), e.At.UTC().Format(time.RFC3339Nano), e.err)
}

// Unwrap makes the error match [pglock.ErrDone] or [ErrMismatch].
func (e *DoneError) Unwrap() error { return e.err }

// The outcomes of pglock.once.
const (
	first    = "first"
	done     = "done"
	mismatch = "mismatch"
	held     = "held"
	stale    = "stale"
)

// refusal returns the error for an outcome; nil for the first.
func (c *call) refusal(said lockdb.OnceRow) error {
	switch said.Outcome {
	case first:
		return nil
	case done:
		return &DoneError{c.name, c.id, said.DoneAt.Time, pglock.ErrDone}
	case mismatch:
		return &DoneError{c.name, c.id, said.DoneAt.Time, ErrMismatch}
	case stale:
		return c.failed(c.id, fmt.Errorf("%w: the transaction is REPEATABLE READ or SERIALIZABLE, and would not see "+
			"what was done since it began (use READ COMMITTED)", pglock.ErrStaleSnapshot))
	}
	return c.failed(c.id, fmt.Errorf("unexpected answer %s from the server", shorttext.Quote(said.Outcome)))
}
