package sqlstate

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pglock-toolkit/pglock/internal/shorttext"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// Explain makes an error of a statement in a caller's transaction, or of beginning or committing one, match the sentinels
// of package driver. Errors that match one already, errors of contexts, and those without a sentinel are returned as they
// are: among the latter is a statement that the server has cancelled (57014). This file is the one place that knows what
// errors of PostgreSQL and of the network mean; docs/errors.md has the table.
func Explain(err error) error {
	if err == nil {
		return nil
	}
	connecting := errors.As(err, new(*pgconn.ConnectError))
	switch {
	case HasSentinel(err) || !connecting && isContext(err):
		return err
	case connecting && Denied(err):
		return match(driver.ErrDenied, " ("+DeniedAdvice+")", err)
	case Of(err) == OutOfMemory:
		return match(driver.ErrTooManyLocks, ": the server's lock table is full (raise max_locks_per_transaction)", err)
	case Of(err) == LockNotAvailable:
		return match(driver.ErrNotAcquired, ": the wait took longer than lock_timeout", err)
	case Broken(err) || In(err, ClassInsufficientResources):
		return match(driver.ErrUnavailable, "", err)
	}
	return err
}

// ExplainSchema is [Explain] for a statement that uses schema pglock.
func ExplainSchema(err error) error {
	if err = Explain(err); err == nil || IsExplained(err) {
		return err
	}
	switch server := Refusal(err); {
	case strings.Contains(server.Message, "pglock_replaced"): // see lockdb.SameSchema
		return ErrReplaced
	case strings.Contains(server.Message, "pglock_missing"):
		return fmt.Errorf("%w%s", driver.ErrSchemaMissing, installIt)
	case In(err, UndefinedFunction, UndefinedTable, InvalidSchemaName):
		return match(driver.ErrSchemaMissing, installIt, err)
	case server.Code == InsufficientPrivilege:
		return match(driver.ErrDenied, ": the role lacks a right on schema pglock (the rights that it needs are at the end of what "+
			"\"pglock migrate print\" writes)", err)
	case server.Code == SequenceExhausted:
		return match(driver.ErrUnavailable, ": no fencing tokens are left (see setval for the sequence pglock.fence)", err)
	case server.Code == ReadOnlyTransaction:
		return match(driver.ErrStandby, ", or the transaction is read-only", err)
	}
	return err
}

const installIt = ", or is older than this needs (run: pglock migrate up)"

// ErrReplaced says that the name pglock leads to another schema than a moment ago. It matches [driver.ErrUntrusted].
var ErrReplaced = fmt.Errorf("%w: schema pglock was replaced while it was being checked or used (try again)", driver.ErrUntrusted)

// ExplainOwn is [ExplainSchema] for a statement that is a transaction of its own, or on a connection of this library's. A
// statement that the server did not carry through is an outage there, and so is every error that is not the server's.
func ExplainOwn(err error) error {
	if err == nil {
		return nil
	}
	switch Of(err) {
	case QueryCanceled, LockNotAvailable:
		if !IsExplained(err) {
			return match(driver.ErrUnavailable, ": the server cancelled the statement", err)
		}
	}
	if err = ExplainSchema(err); Of(err) != "" || IsExplained(err) {
		return err
	}
	return match(driver.ErrUnavailable, "", err)
}

// WithoutKeys returns the error of a connection string that was parsed. If the text of a private key stood where the name of
// its file belongs, the error does not repeat it.
func WithoutKeys(err error) error {
	if file, ok := errors.AsType[*fs.PathError](err); ok && strings.Contains(file.Path, "-----BEGIN") {
		return errors.New("cannot parse the connection string: sslkey, sslcert or sslrootcert has the text of a key or certificate " +
			"(want the name of a file)")
	}
	return err
}

func match(sentinel error, text string, err error) error {
	return fmt.Errorf("%w%s: %w", sentinel, text, shorttext.Error(err))
}

// EndedBy adds the cause of ctx to an error that the end of ctx has caused. pgx leaves the cause out, and if it is
// configured to cancel the statement on the server, it returns only the server's error.
func EndedBy(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil || Of(err) != QueryCanceled && !errors.Is(err, ctx.Err()) {
		return err
	}
	for _, why := range []error{ctx.Err(), context.Cause(ctx)} {
		if !errors.Is(err, why) {
			err = fmt.Errorf("%w: %w", why, err)
		}
	}
	return err
}

// Broken reports whether err says that a connection could not be made, or has ended. Errors of contexts do not.
func Broken(err error) bool {
	if server := Refusal(err); server.Code != "" {
		return server.SeverityUnlocalized == "FATAL" || server.SeverityUnlocalized == "PANIC" ||
			In(err, ClassConnectionException, ClassShutdown, IdleInTransactionTimeout, TransactionTimeout)
	}
	if _, connecting := errors.AsType[*pgconn.ConnectError](err); connecting { // its timeout is that of a context too
		return true
	}
	if isContext(err) {
		return false
	}
	for _, end := range []error{io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, pgconn.ErrConnClosed, sqldriver.ErrBadConn, sql.ErrConnDone} {
		if errors.Is(err, end) {
			return true
		}
	}
	_, network := errors.AsType[net.Error](err)
	return network
}

// Unsent reports whether err says for certain that a statement was not sent. pgx says so of a connection that is closed, which
// is also its error if the connection ends before the first answer to a batch.
func Unsent(err error) bool { return pgconn.SafeToRetry(err) && !errors.Is(err, pgconn.ErrConnClosed) }

// IsExplained reports whether err matches a sentinel of package driver, or is an error of a context.
func IsExplained(err error) bool { return isContext(err) || HasSentinel(err) }

// HasSentinel reports whether err matches a sentinel of package driver.
func HasSentinel(err error) bool {
	_, ok := errors.AsType[interface {
		error
		Sentinel()
	}](err)
	return ok
}

func isContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
