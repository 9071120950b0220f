package wire

import (
	"errors"
	"fmt"

	"github.com/pglock-toolkit/pglock/internal/shorttext"
	"github.com/pglock-toolkit/pglock/internal/trust"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/refusal"
)

// Refusal turns the outcome of a guarded statement (queries/sessions.sql) into an error.
func Refusal(outcome string) error {
	switch outcome {
	case "granted":
		return nil
	case pooled:
		return trust.Pooled()
	}
	if err := refusal.Of(outcome); err != nil {
		return err
	}
	return fmt.Errorf("unexpected answer %s from the server", shorttext.Quote(outcome))
}

// Ended returns the error of a session that has ended, and so cannot be used any more.
func Ended(why driver.LostReason, err error) error {
	if err == nil {
		return fmt.Errorf("the lock session was ended: %v", why)
	}
	return fmt.Errorf("the lock session ended: %w", err)
}

// LostBecause makes err match [driver.ErrLost].
func LostBecause(err error) error {
	if errors.Is(err, driver.ErrLost) {
		return err
	}
	return fmt.Errorf("%w: %w", driver.ErrLost, err)
}
