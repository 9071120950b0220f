package driver

import (
	"errors"
	"fmt"
)

// The sentinels of package pglock, which documents them; they live here so that backends can return them.
var (
	ErrNotAcquired   error = sentinel("lock not acquired")
	ErrLost          error = sentinel("lock lost")
	ErrUnlocked      error = sentinel("lock already unlocked")
	ErrUnavailable   error = sentinel("lock server unavailable")
	ErrDenied        error = sentinel("the lock server denies access")
	ErrTooManyLocks  error = sentinel("too many locks")
	ErrInvalidKey    error = sentinel("invalid lock key")
	ErrClosed        error = sentinel("locker closed")
	ErrUnsupported   error = sentinel("not supported")
	ErrPooler        error = sentinel("a proxy is between client and server")
	ErrStandby       error = sentinel("server is a hot standby")
	ErrStaleSnapshot error = sentinel("transaction snapshot is older than the lock")
	ErrOtherServer   error = sentinel("the transaction is not on the server and in the database of the lock")
	ErrSchemaMissing error = sentinel("schema pglock is not installed")
	ErrUntrusted     error = sentinel("schema pglock is not to be trusted")
)

type sentinel string

func (s sentinel) Error() string { return string(s) }
func (sentinel) Sentinel()       {} // by which this module knows them

// UntrustedError names the object that must not be used, since the code of another role would run with the rights of
// the current one. It matches [ErrUntrusted].
type UntrustedError struct {
	Object string // as PostgreSQL describes it, such as "schema pglock" or "view pglock.names", or what is wrong
	Owner  string // "" if something else than its owner is wrong
}

func (e *UntrustedError) Error() string {
	if e.Owner == "" {
		return fmt.Sprintf("%v: %s (nothing of it was used; \"pglock doctor\" shows the statement that ends this)", ErrUntrusted, e.Object)
	}
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
	// LostGone: the server answered that it no longer has the lock, which is data there and needs no session: it ended
	// the lease of the process, the lock was deleted, or the server has forgotten it.
	LostGone LostReason = "gone"
	// LostClosed: the Locker was closed while the lock was held.
	LostClosed LostReason = "closed"
)

// Lost returns an error that matches [ErrLost] and says why, for backends. An [ErrLost] that does not say why is of a
// session that has ended.
func Lost(why LostReason) error { return lostError(why) }

type lostError LostReason

func (lostError) Error() string { return ErrLost.Error() }
func (lostError) Unwrap() error { return ErrLost }

// Reason is what package pglock reads.
func (e lostError) Reason() LostReason { return LostReason(e) }

// UnsettledError is an error of Acquire or Release: the server did not answer in time, so it is not known yet what it
// will do. It does not match ErrNotAcquired, after which the front end may ask again for the same request.
type UnsettledError struct {
	// Err says what has gone wrong.
	Err error
	// Done is closed when the backend does not hold the key: it has got the answer and released what that granted, or the
	// session has ended.
	Done <-chan struct{}
}

// Error returns the text of Err.
func (e *UnsettledError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *UnsettledError) Unwrap() error { return e.Err }

// WhenSettled calls then when it is known what the server has done with a request that returned err: at once or, after
// an [*UnsettledError], in a goroutine.
func WhenSettled(err error, then func()) {
	open, ok := errors.AsType[*UnsettledError](err)
	if !ok {
		then()
		return
	}
	go func() {
		<-open.Done
		then()
	}()
}
