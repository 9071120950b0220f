// Package sqlstate defines the error codes of PostgreSQL that pglock knows
// (https://www.postgresql.org/docs/current/errcodes-appendix.html).
package sqlstate

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// The codes, by the names of their conditions.
const (
	FeatureNotSupported        = "0A000"
	ReadOnlyTransaction        = "25006"
	SerializationFailure       = "40001"
	NoActiveTransaction        = "25P01"
	InFailedTransaction        = "25P02"
	IdleInTransactionTimeout   = "25P03" // idle_in_transaction_session_timeout
	TransactionTimeout         = "25P04" // transaction_timeout
	DependentObjectsStillExist = "2BP01"
	InvalidCatalogName         = "3D000" // the database does not exist
	InvalidSchemaName          = "3F000"
	InsufficientPrivilege      = "42501"
	InvalidParameterValue      = "22023"
	UndefinedObject            = "42704" // also for a setting with an unknown name
	UndefinedFunction          = "42883"
	UndefinedTable             = "42P01"
	AmbiguousFunction          = "42725"
	SequenceExhausted          = "2200H"
	OutOfMemory                = "53200" // also for a full lock table
	TooManyConnections         = "53300" // of the server, the database or the role
	CantChangeRuntimeParam     = "55P02" // of a setting in the connection's parameters
	LockNotAvailable           = "55P03" // lock_timeout
	QueryCanceled              = "57014" // also for a cancel request
	ProtocolViolation          = "08P01" // also for all that PgBouncer says itself
	InternalError              = "XX000" // also for a relation that was dropped during the wait for its lock
)

// Classes of codes, as prefixes of the codes.
const (
	ClassConnectionException   = "08"
	ClassDataException         = "22"
	ClassAuthorization         = "28" // the role does not exist, or its password is wrong
	ClassSyntaxOrAccess        = "42"
	ClassInsufficientResources = "53"
	ClassOperatorIntervention  = "57"
	ClassShutdown              = "57P" // the part of the class for a server that shuts down or starts
)

// Refusal returns the server's error that err contains, or a zero one if the server did not send it. An error of another
// driver than pgx, such as lib/pq, has only the code, and the driver's whole text.
func Refusal(err error) pgconn.PgError {
	if server, ok := errors.AsType[*pgconn.PgError](err); ok {
		return *server
	}
	if server, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err); ok {
		return pgconn.PgError{Code: server.SQLState(), Message: server.Error()}
	}
	return pgconn.PgError{}
}

// Of returns the code of a server's error, or "" for other errors.
func Of(err error) string { return Refusal(err).Code }

// Denied reports whether err, of an attempt to connect, says that the server does not permit what the configuration
// asks for: the role, the database, or a setting.
func Denied(err error) bool {
	return In(err, ClassAuthorization, InvalidCatalogName, InsufficientPrivilege, UndefinedObject, InvalidParameterValue, CantChangeRuntimeParam) ||
		Of(err) == ProtocolViolation && poolerDenies.MatchString(Refusal(err).Message)
}

// poolerDenies matches what PgBouncer says when it denies a connection. It has one code for all that it says, outages too.
var poolerDenies = regexp.MustCompile(`authentication failed|^(no such (user|database)|unsupported startup parameter):|` +
	`^(role|database) ".*" does not exist$`)

// DeniedAdvice says what to do about an error that is [Denied].
const DeniedAdvice = "check the role, its password, its right to connect, the name of the database, and the parameters of the connection"

// In reports whether err is a server's error whose code begins with one of the prefixes: a class, or a whole code.
func In(err error, prefixes ...string) bool {
	code := Of(err)
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(code, prefix) })
}
