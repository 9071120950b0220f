package once

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pglock-toolkit/pglock/internal/shorttext"
	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/pglock"
)

var (
	// ErrMismatch: the same id was used for other contents, see [Scope.Matching]. Either the caller has a bug, or
	// another client is guessing ids.
	ErrMismatch = errors.New("already done for other contents")
)

// DoneError says what was done, and when. It matches [pglock.ErrDone], or [ErrMismatch].
type DoneError struct {
	// Scope and ID identify the work. They are empty in an error that [TxError] returns.
	Scope, ID string
	// At is when it was recorded, by the server's clock.
	At time.Time
	// Err is pglock.ErrDone or ErrMismatch.
	Err error
}

func (e *DoneError) Error() string {
	return fmt.Sprintf("pglock/once: %sat %s: %v", what(e.Scope, e.ID), e.At.UTC().Format(time.RFC3339Nano), e.Err)
}

// Unwrap makes the error match [pglock.ErrDone] or [ErrMismatch].
func (e *DoneError) Unwrap() error { return e.Err }

func what(scope, id string) string {
	if scope == "" {
		return ""
	}
	return fmt.Sprintf("%s of %s ", shorttext.Quote(id), shorttext.Quote(scope))
}

// The outcomes of pglock.once.
const (
	first    = "first"
	done     = "done"
	mismatch = "mismatch"
	held     = "held"
	stale    = "stale"
)

// refusal returns the error for an outcome; nil for the first.
func refusal(scope, id, outcome string, at time.Time) error {
	switch outcome {
	case first:
		return nil
	case done:
		return &DoneError{scope, id, at, pglock.ErrDone}
	case mismatch:
		return &DoneError{scope, id, at, ErrMismatch}
	case held:
		wait := &pglock.WaitError{}
		if scope != "" {
			wait.Keys = []pglock.Key{(&Scope{name: scope}).LockKey(id)}
		}
		return wait
	case stale:
		return fmt.Errorf("pglock/once: %s: %w: the transaction is REPEATABLE READ or SERIALIZABLE, and would not see "+
			"what was done since it began (use READ COMMITTED)", strings.TrimSpace(what(scope, id)), pglock.ErrStaleSnapshot)
	}
	return fmt.Errorf("pglock/once: unexpected answer %s from the server", shorttext.Quote(outcome))
}

// raised is the start of the messages that pglock.once_or_raise raises; their SQLSTATE is
// stateRaised.
const (
	raised      = "pglock_once_"
	stateRaised = "PLK01"
	detailTime  = "done at 2006-01-02T15:04:05.999999Z"
)

// TxError maps an error that was read by hand from the results of a batch with [Scope.Queue] to one of this package or of
// package pglock. It returns every other error, and nil, unchanged. It does not know the scope and the id.
func TxError(err error) error { return explain("", "", err) }

// explain maps an error from the server.
func explain(scope, id string, err error) error {
	server := sqlstate.Refusal(err)
	outcome, ok := strings.CutPrefix(server.Message, raised)
	if server.Code != stateRaised || !ok {
		return sqlstate.ExplainSchema(pglock.TxError(err))
	}
	at, parseErr := time.Parse(detailTime, server.Detail)
	if parseErr != nil && (outcome == done || outcome == mismatch) {
		return err
	}
	return refusal(scope, id, outcome, at)
}
