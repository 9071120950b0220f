package pglock

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pglock-toolkit/pglock/internal/shorttext"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// Errors to match with [errors.Is]. Contended, lost and unreachable are three different things:
var (
	// ErrNotAcquired: the lock was refused, since another holder has it, or waits for it ahead of this call. It comes
	// as a *[WaitError]. Refusals of the packages on top of this one match it too.
	ErrNotAcquired = driver.ErrNotAcquired
	// ErrDone: the work has been done, by this process or another, so there is nothing to do. It matches ErrNotAcquired
	// too. Packages schedule and once return it.
	ErrDone error = doneError{}
	// ErrLost: the lock ended without an Unlock; it comes as a *[LostError].
	ErrLost = driver.ErrLost
	// ErrUnlocked: the lock has been unlocked already.
	ErrUnlocked = driver.ErrUnlocked
	// ErrUnavailable: the server cannot be reached, or has no room for the connection. The caller of [Locker.Lock]
	// holds nothing and has nothing to unlock. A late request may still be granted; the server frees it within one
	// lease.
	ErrUnavailable = driver.ErrUnavailable
	// ErrDenied: the server denies access: the role or the database does not exist, the password or a parameter of the
	// connection is wrong, or the role may not connect, or lacks a right on schema pglock. It is not an outage, so
	// retries do not help until that has been fixed.
	ErrDenied = driver.ErrDenied
	// ErrTooManyLocks: the lock would exceed [WithMaxHeld] or the server's lock table.
	ErrTooManyLocks = driver.ErrTooManyLocks
	// ErrInvalidKey: the zero Key, text that is not a key, or a name that is empty, has more than [MaxName] bytes, or
	// is not UTF-8 without NUL.
	ErrInvalidKey = driver.ErrInvalidKey
	// ErrDeadlock: the call would have waited for calls that wait for it. It comes as a *[DeadlockError], which names
	// them.
	ErrDeadlock = errors.New("deadlock")
	// ErrSelfDeadlock: the smallest deadlock: the context of the call descends from the Context of a Lock that the call
	// would wait for. Use the Lock that is held, or a context from before it. It matches ErrDeadlock too.
	ErrSelfDeadlock error = selfDeadlockError{}
	// ErrClosed: the Locker has been closed.
	ErrClosed = driver.ErrClosed
	// ErrUnsupported: this backend or server cannot do that at all.
	ErrUnsupported = driver.ErrUnsupported
	// ErrPooler: a proxy between client and server may give the session to another client between two statements, so a
	// lock of that session would be orphaned. Connect directly, keep the locks in rows (package rowlock), or see
	// [AllowPooler].
	ErrPooler = driver.ErrPooler
	// ErrStandby: the server is a hot standby, whose advisory locks exclude only sessions of that server. Connect to
	// the primary, or see [AllowStandby].
	ErrStandby = driver.ErrStandby
	// ErrStaleSnapshot: the transaction is REPEATABLE READ or SERIALIZABLE, so it would read from a snapshot that is
	// older than the lock. Use READ COMMITTED, or see [AllowStaleSnapshot]. To be guarded by a lock in a row (package
	// rowlock), it is enough that the transaction begins after the lock was granted.
	ErrStaleSnapshot = driver.ErrStaleSnapshot
	// ErrOtherServer: [Lock.GuardTx] was given a transaction on another server, or in another database, than the
	// lock's. After a failover that can be the old primary, or the new one.
	ErrOtherServer = driver.ErrOtherServer
	// ErrSchemaMissing: this needs the schema pglock, which is not installed in the database; the error text names the
	// command that installs it.
	ErrSchemaMissing = driver.ErrSchemaMissing
	// ErrUntrusted: schema pglock, or something in it, belongs to a role that is not trusted: its code would run with
	// the rights of the current role. The error is an *[UntrustedError], which names the owner. See [WithTrustedOwner].
	ErrUntrusted = driver.ErrUntrusted
)

// UntrustedError names the object in schema pglock that was not used, and its owner. It matches [ErrUntrusted].
type UntrustedError = driver.UntrustedError

// Holder is what holds a lock: a session, or in rows and on Redis a process. Fields that the server does not report are
// zero.
type Holder = driver.Holder

// LostReason says why a lock was lost: session, lease, gone, max-hold or closed.
type LostReason = driver.LostReason

// The reasons of a [LostError].
const (
	LostSession            = driver.LostSession // the server session that held the lock ended
	LostLease              = driver.LostLease   // the server was not heard from for as long as the lease
	LostGone               = driver.LostGone    // the server no longer has the row or the Redis key of the lock
	LostMaxHold LostReason = "max-hold"         // the lock was held for as long as [MaxHold] allows
	LostClosed             = driver.LostClosed  // the Locker was closed
)

// because returns words that complete "the lock was lost because …".
func because(r LostReason) string {
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

// reasonOf returns what [driver.Lost] has put into err, and [LostSession] if there is nothing.
func reasonOf(err error) LostReason {
	lost, ok := errors.AsType[interface {
		error
		Reason() LostReason
	}](err)
	if !ok {
		return LostSession
	}
	return lost.Reason()
}

type doneError struct{}

func (doneError) Error() string        { return "already done" }
func (doneError) Is(target error) bool { return target == ErrNotAcquired }

type selfDeadlockError struct{}

func (selfDeadlockError) Error() string        { return "the call would wait for itself" }
func (selfDeadlockError) Is(target error) bool { return target == ErrDeadlock }

var errNoKeys = fmt.Errorf("pglock: lock: %w: no keys", ErrInvalidKey)

// WaitError reports that a lock was not acquired, and names its holders. It matches [ErrNotAcquired], and the context's
// error if the context ended the wait.
type WaitError struct {
	// Keys are the requested keys, in the order of [Lock.Keys].
	Keys []Key
	// Waited is how long the call waited; zero for one that does not wait.
	Waited time.Duration
	// Holders are the known holders at the end of the wait. It is empty for calls that do not wait, which do not look
	// for holders; [Locker.Holders] does.
	Holders []Holder
	// Err is what ended the wait; nil if [MaxWait] did, outside of a batch, or if there was no wait.
	Err error

	ahead string // who is ahead, if no holder is
}

func (e *WaitError) Error() string {
	var b strings.Builder
	b.WriteString("pglock: lock ")
	if len(e.Keys) > 0 {
		b.WriteString(keyText(e.Keys[0], len(e.Keys)-1) + " ")
	}
	b.WriteString("not acquired")
	if e.Waited > 0 {
		fmt.Fprintf(&b, " after %v", roundForPeople(e.Waited))
	}
	switch {
	case len(e.Holders) > 0:
		b.WriteString(": held by " + holdersText(e.Holders))
	case e.ahead != "":
		b.WriteString(": not held, but waited for by " + e.ahead)
	case e.Waited == 0 && e.Err == nil && len(e.Keys) > 1:
		b.WriteString(": at least one is already held")
	case e.Waited == 0 && e.Err == nil:
		b.WriteString(": already held")
	}
	if e.Err != nil {
		b.WriteString(": " + shorttext.Message(e.Err.Error()))
	}
	return b.String()
}

// Unwrap makes the error match [ErrNotAcquired] and what ended the wait.
func (e *WaitError) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrNotAcquired}
	}
	return []error{ErrNotAcquired, e.Err}
}

// LostError reports which lock was lost and why. It matches [ErrLost] and Err.
type LostError struct {
	// Keys are the keys that were lost, in the order of [Lock.Keys].
	Keys []Key
	// Reason is why it was lost.
	Reason LostReason
	// Err is the underlying error, if any.
	Err error
}

func (e *LostError) Error() string {
	text := fmt.Sprintf("pglock: lock %s lost: %s", keyText(e.Keys[0], len(e.Keys)-1), because(e.Reason))
	if e.Err == nil {
		return text
	}
	cause := shorttext.Message(e.Err.Error())
	if rest, says := strings.CutPrefix(cause, ErrLost.Error()); says { // it need not be said twice
		cause = strings.TrimPrefix(rest, ": ")
	}
	if cause == "" {
		return text
	}
	return text + ": " + cause
}

// Unwrap makes the error match [ErrLost] and its cause.
func (e *LostError) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrLost}
	}
	return []error{ErrLost, e.Err}
}

// failed adds what was attempted on which lock, unless err contains that.
func failed(attempt string, key Key, more int, err error) error {
	if wait, lost := (*WaitError)(nil), (*LostError)(nil); errors.As(err, &wait) || errors.As(err, &lost) || errors.Is(err, ErrDeadlock) {
		return err
	}
	return fmt.Errorf("pglock: %s %s: %w", attempt, keyText(key, more), shorttext.Error(err))
}

func keyText(key Key, more int) string {
	text := shorttext.Quote(key.String())
	if more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func holdersText(holders []Holder) string {
	if len(holders) == 0 {
		return "an unknown session"
	}
	text := holderText(holders[0])
	if more := len(holders) - 1; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func holderText(h Holder) string {
	if h.Prepared != "" {
		return "prepared transaction " + shorttext.Quote(h.Prepared)
	}
	parts := make([]string, 0, 6)
	if h.Self {
		parts = append(parts, "this process")
	}
	if h.PID != 0 {
		parts = append(parts, fmt.Sprintf("pid %d", h.PID))
	}
	if h.Application != "" {
		parts = append(parts, "application "+shorttext.Quote(h.Application))
	}
	if h.User != "" {
		parts = append(parts, "user "+shorttext.Value(h.User))
	}
	if h.Client != "" {
		parts = append(parts, "client "+shorttext.Value(h.Client))
	}
	if !h.Since.IsZero() {
		parts = append(parts, "since "+h.Since.UTC().Format(time.RFC3339))
	} else if !h.SessionSince.IsZero() {
		parts = append(parts, "session since "+h.SessionSince.UTC().Format(time.RFC3339))
	}
	if h.PID == 0 && h.Token != "" {
		parts = append(parts, "token "+shorttext.Quote(h.Token))
	}
	if len(parts) == 0 {
		return "an unknown session"
	}
	return strings.Join(parts, ", ")
}

// roundForPeople keeps three digits of a duration.
func roundForPeople(d time.Duration) time.Duration {
	unit := time.Duration(1)
	for 1000*unit < d {
		unit *= 10
	}
	return d.Round(unit)
}
