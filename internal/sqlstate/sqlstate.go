// Package sqlstate has the error codes of PostgreSQL that pglock knows
// (https://www.postgresql.org/docs/current/errcodes-appendix.html).
package sqlstate

import (
	"errors"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// The codes, by the names of their conditions.
const (
	ReadOnlyTransaction        = "25006"
	SerializationFailure       = "40001"
	NoActiveTransaction        = "25P01"
	DependentObjectsStillExist = "2BP01"
	InvalidCatalogName         = "3D000" // the database does not exist
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

// Classes of codes, which the codes begin with.
const (
	ClassConnectionException   = "08"
	ClassDataException         = "22"
	ClassAuthorization         = "28" // the role does not exist, or its password is wrong
	ClassSyntaxOrAccess        = "42"
	ClassInsufficientResources = "53"
	ClassOperatorIntervention  = "57"
	ClassShutdown              = "57P" // the part of it for a server that shuts down or starts
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

// Denied reports whether err says that the server denies a role what it asks for: the connection, or a right.
func Denied(err error) bool {
	return In(err, ClassAuthorization, InvalidCatalogName, InsufficientPrivilege)
}

// In reports whether err is a server's error whose code begins with one of the prefixes: a class, or a whole code.
func In(err error, prefixes ...string) bool {
	code := Of(err)
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(code, prefix) })
}
