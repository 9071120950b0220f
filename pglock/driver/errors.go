package driver

import (
	"errors"
	"fmt"
	"log/slog"
)

// The sentinels of package pglock, which documents them; they live here so that backends can return them.
var (
	ErrNotAcquired   = errors.New("lock not acquired")
	ErrLost          = errors.New("lock lost")
	ErrUnlocked      = errors.New("lock already unlocked")
	ErrUnavailable   = errors.New("lock server unavailable")
	ErrDenied        = errors.New("the lock server denies access")
	ErrTooManyLocks  = errors.New("too many locks")
	ErrInvalidKey    = errors.New("invalid lock key")
	ErrClosed        = errors.New("locker closed")
	ErrUnsupported   = errors.New("not supported")
	ErrPooler        = errors.New("a proxy is between client and server")
	ErrStandby       = errors.New("server is a hot standby")
	ErrStaleSnapshot = errors.New("transaction snapshot is older than the lock")
	ErrOtherServer   = errors.New("the transaction is not on the server and in the database of the lock")
	ErrSchemaMissing = errors.New("schema pglock is not installed")
	ErrUntrusted     = errors.New("schema pglock is not to be trusted")
)

// UntrustedError names the object that must not be used, since its owner's code would run with the rights of the
// current role. It matches [ErrUntrusted].
type UntrustedError struct {
	Object string // as PostgreSQL describes it, such as "schema pglock" or "view pglock.names"
	Owner  string
}

func (e *UntrustedError) Error() string {
	return fmt.Sprintf("%v: %s belongs to role %q, which is not trusted (nothing of it was used; if that role's code may "+
		"run with the rights of this one, name it: WithTrustedOwner, or --trust-owner)", ErrUntrusted, e.Object, e.Owner)
}

// Unwrap makes the error match [ErrUntrusted].
func (e *UntrustedError) Unwrap() error { return ErrUntrusted }

// LostReason says why a lock was lost.
type LostReason string

const (
	// LostSession: the server session that held the lock ended: it was terminated, the server restarted, or the
	// connection broke.
	LostSession LostReason = "session"
	// LostLease: the server was not heard from for so long that it may have granted the lock to another session.
	LostLease LostReason = "lease"
	// LostGone: the server answered that it no longer has the lock, which is data there and needs no session: it ended the
	// lease of the process, the lock was deleted, or the server has forgotten it.
	LostGone LostReason = "gone"
	// LostMaxHold: the lock was held for as long as its MaxHold allowed.
	LostMaxHold LostReason = "max-hold"
	// LostClosed: the Locker was closed while the lock was held.
	LostClosed LostReason = "closed"
)

// String returns words that complete "the lock was lost because …".
func (r LostReason) String() string {
	switch r {
	case LostSession:
		return "its server session ended"
	case LostLease:
		return "its lease ran out before the server answered"
	case LostGone:
		return "the server no longer has it"
	case LostMaxHold:
		return "it was held for as long as MaxHold allows"
	case LostClosed:
		return "the Locker was closed"
	}
	return string(r)
}

// Lost returns an error that matches [ErrLost] and says why, for backends. An [ErrLost] that does not say why is of a
// session that has ended.
func Lost(why LostReason) error { return lostError(why) }

// ReasonOf returns what [Lost] has put into err, and [LostSession] if there is nothing.
func ReasonOf(err error) LostReason {
	if lost, ok := errors.AsType[lostError](err); ok {
		return LostReason(lost)
	}
	return LostSession
}

type lostError LostReason

func (lostError) Error() string { return ErrLost.Error() }
func (lostError) Unwrap() error { return ErrLost }

// LogValue implements slog.LogValuer: every handler logs the reason as one word.
func (r LostReason) LogValue() slog.Value { return slog.StringValue(string(r)) }

// UnsettledError is an error of Acquire or Release: the server did not answer in time, so it is not known yet what it
// will do. It does not match ErrNotAcquired, after which the front end may ask again for the same request.
type UnsettledError struct {
	// Err says what has gone wrong.
	Err error
	// Done is closed when the backend holds none of the keys: it has got the answer and released what that granted,
	// or the session has ended.
	Done <-chan struct{}
}

// Error returns the text of Err.
func (e *UnsettledError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *UnsettledError) Unwrap() error { return e.Err }
