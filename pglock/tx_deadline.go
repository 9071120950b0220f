package pglock

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// below returns c with a bound on the wait a little before ctx's deadline, unless MaxWait ends it earlier. If the
// context ended during a statement, pgx would close the connection, and the server could no longer be asked for the
// holders.
func (c txConfig) below(ctx context.Context) txConfig {
	deadline, ok := ctx.Deadline()
	if !ok {
		return c
	}
	left := time.Until(deadline)
	wait := left - reserve(left)
	if wait <= 0 || c.bounded && c.maxWait <= wait {
		return c
	}
	c.maxWait, c.bounded, c.derived = wait, true, true
	return c
}

// reserve returns how much of the time until a deadline is kept for what follows the wait.
func reserve(left time.Duration) time.Duration {
	return min(max(left/10, minReserve), maxReserve, left/2)
}

const (
	minReserve = 50 * time.Millisecond
	maxReserve = time.Second
)

var (
	errDeadlineNear = fmt.Errorf("the context's deadline is near: %w", context.DeadlineExceeded)
	errOwnTimeout   = errors.New("the session's own lock_timeout has passed")
)
