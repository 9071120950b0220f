// Package sqlstate has the error codes of PostgreSQL that pglock knows
// (https://www.postgresql.org/docs/current/errcodes-appendix.html).
package sqlstate

import (
	"errors"

	"github.com/jackc/pgx/v5/pgconn"
)

// The codes, by the names of their conditions.
const (
	ReadOnlyTransaction        = "25006"
	DependentObjectsStillExist = "2BP01"
	InvalidSchemaName          = "3F000"
	InsufficientPrivilege      = "42501"
	UndefinedObject            = "42704" // among others, a setting of an unknown name
	UndefinedFunction          = "42883"
	UndefinedTable             = "42P01"
	OutOfMemory                = "53200" // among others, the shared lock table is full
	TooManyConnections         = "53300" // of the server, the database or the role
	LockNotAvailable           = "55P03" // lock_timeout
	QueryCanceled              = "57014" // among others, a cancel request
	InternalError              = "XX000" // among others, a relation was dropped while its lock was waited for
)

// Refusal returns the server's part of err; zero if the server did not send it.
func Refusal(err error) pgconn.PgError {
	if server, ok := errors.AsType[*pgconn.PgError](err); ok {
		return *server
	}
	return pgconn.PgError{}
}

// Of returns the code of a server's error; empty for other errors.
func Of(err error) string { return Refusal(err).Code }
