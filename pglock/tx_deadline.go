package pglock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/pglock/internal/txscript"
)

// below returns c with a bound on the wait a little before ctx's deadline, unless MaxWait ends it earlier. If the
// context ended during a statement, pgx would close the connection, and the server could no longer be asked for the
// holders.
func (c txConfig) below(ctx context.Context, tx pgx.Tx) txConfig {
	deadline, ok := ctx.Deadline()
	if !ok || !canBeBounded(tx) {
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

// canBeBounded reports whether the statements of a bounded wait can be sent, which are a script.
func canBeBounded(tx pgx.Tx) bool {
	if _, ok := tx.(txscript.Runner); ok {
		return true
	}
	conn := tx.Conn()
	if conn == nil {
		return false
	}
	server := conn.PgConn()
	return server.ParameterStatus("client_encoding") == "UTF8" && server.ParameterStatus("standard_conforming_strings") == "on"
}

var (
	errDeadlineNear = fmt.Errorf("the context's deadline is near: %w", context.DeadlineExceeded)
	errOwnTimeout   = errors.New("the session's own lock_timeout has passed")
)
