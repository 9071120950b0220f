// Package driver is the contract between package pglock and the servers that keep its locks, as database/sql/driver
// is for databases. Import it to write a backend; to use locks, import package pglock.
//
// The front end (package pglock) owns everything that is the same on every server: the queue among the goroutines of
// a process, deadlines, contexts, options and error texts. A backend owns sessions and wires: it takes keys, releases them,
// reports their holders, and reports their loss.
//
// Not every server can do everything. What only some can do has an interface of its own, which a backend may implement:
// [Together], [NamedLocks], [Fencer], [TxGuard] and [Drainer].
//
// The package is unstable before v1.
package driver

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
)

// ReleaseTimeout is how long a backend waits for its server to confirm a release.
const ReleaseTimeout = 5 * time.Second

// Backend keeps locks on some server. All methods may be called from many goroutines at once.
type Backend interface {
	// Start is called once, before any other method. It must not use the network. Settings that the backend cannot
	// honour are an error that matches [ErrUnsupported].
	Start(config Config) error

	// Ping connects to the server if necessary and checks that locks can be taken; the error says why not
	// ([ErrUnavailable], [ErrPooler], [ErrStandby], [ErrUnsupported], [ErrSchemaMissing]).
	Ping(ctx context.Context) error

	// Acquire takes r.Key. With r.Wait it waits until ctx ends, and then returns context.Cause(ctx), or [ErrUnavailable]
	// as well if the server has not confirmed the end of the wait; without, it answers at once, with [ErrNotAcquired] if another
	// session holds the key or waits for it. The front end always asks without waiting first. For a lock of several keys it asks
	// for all of them at the same time; see [Together].
	// If it returns an error, the caller holds nothing: if a grant and the end of ctx race, Acquire either returns the
	// grant or releases it before it returns. A server that cannot be reached is [ErrUnavailable] after one new
	// attempt; Acquire does not wait for it. Only after that error may the server still grant the request, and then it
	// frees the lock within the lease. If that takes too long because the server does not answer, the error is an
	// [*UnsettledError]: the front end does not ask for the key again before its Done is closed. Release may return
	// one too.
	Acquire(ctx context.Context, r Request) (Grant, error)

	// Release releases g. It returns an error that matches [ErrLost] if the lock was lost before. In any case the
	// backend no longer holds g once the server can be reached. The front end calls it once for a grant. Release uses
	// the values of ctx only, ignores its end, and gives up after [ReleaseTimeout].
	Release(ctx context.Context, g Grant) error

	// Check asks the server whether g is still held. The error matches [ErrLost] if it is not, and [ErrUnavailable] if
	// there was no answer.
	Check(ctx context.Context, g Grant) error

	// Holders returns the present holders of k in all processes.
	Holders(ctx context.Context, k Key) ([]Holder, error)

	// Close ends every session. All grants have been released or given up before.
	Close(ctx context.Context) error
}

// Together is implemented by backends that can send several requests in one statement.
type Together interface {
	// AcquireTogether is Acquire for each of the requests, which do not wait, and have nothing Beside. The results are parallel to them.
	AcquireTogether(ctx context.Context, requests []Request) ([]Grant, []error)
	// ReleaseTogether is Release for each of the grants; done is false, and nothing is done, if one statement cannot.
	ReleaseTogether(ctx context.Context, grants []Grant) (errs []error, done bool)
}

// NamedLocks is implemented by backends whose server knows locks by their texts, [Key.String], and not by their
// numbers. The front end has a queue for each lock, so it must know which keys are the same lock.
type NamedLocks interface {
	// LocksByName reports whether keys with equal KeyIDs and different names are different locks: two names whose
	// hashes collide, or a name and the raw key of its number. Without this method they are the same lock.
	LocksByName() bool
}

// Fencer is implemented by backends that can number the holders of a lock, for Lock.Fence.
type Fencer interface {
	// Fence returns a number that is larger than that of every earlier holder of any of the grants' keys, drawn while all of
	// them were held. The error matches [ErrSchemaMissing] if the server lacks the schema for it.
	Fence(ctx context.Context, grants []Grant) (int64, error)
}

// TxGuard is implemented by backends whose server also has the transactions that write under a lock, for Lock.GuardTx.
type TxGuard interface {
	// GuardTx ensures that tx cannot commit if one of grants, those of a Lock, was already lost, and makes later holders' guarded
	// transactions wait for tx. Guarded transactions of one holder run side by side. The front end sets first until a call for
	// a Lock has succeeded: guarded transactions of earlier holders may still run then, and the backend has to wait for them. It
	// never makes two such calls for one Lock at a time.
	//
	// The error matches [ErrLost] if a grant is lost. After any error except [ErrStaleSnapshot] the front end aborts tx.
	GuardTx(ctx context.Context, tx pgx.Tx, grants []Grant, first bool) error
	// GuardsInOrder reports whether first also makes a call wait for guarded transactions of earlier Locks on the same
	// grant. If not, the front end passes no exclusive grant that has guarded a transaction on to another Lock, but
	// releases it.
	GuardsInOrder() bool
}

// Config is what the front end passes to a backend when it starts it.
type Config struct {
	// Lease is how long a silent client keeps its locks.
	Lease time.Duration
	// Logger is never nil.
	Logger *slog.Logger
}

// Request says what to acquire.
type Request struct {
	// Key is valid.
	Key Key
	// Shared asks for a shared lock, of which a key may have many at once.
	Shared bool
	// Wait asks to wait until the lock is granted; otherwise the answer comes at once.
	Wait bool
	// Beside is what this process holds of the key when it asks, shared as the request is; nil is nothing. There is one such grant
	// at most, and one request at a time. The request is to find out whether a writer is in line: if it is granted, the front end
	// releases the new grant, unless Beside has ended meanwhile. A backend whose server would not refuse it for a writer, as
	// PostgreSQL does not if the same session has the key already, finds out otherwise, and may return Beside instead of a new grant.
	Beside Grant
	// Token has a text that is unique per acquisition. Backends whose server stores a token store this text.
	Token fmt.Stringer
	// LossHandler is notified when the grant is lost.
	LossHandler LossHandler
}

// Drainer is implemented by backends whose Acquire may take long even without waiting for a lock, because the server
// cannot be reached. Closing a Locker would take as long.
type Drainer interface {
	// Drain is called when the Locker begins to close. From then on Acquire fails with [ErrClosed], and so do calls
	// that have not been sent to the server yet. Grants are kept and can be released. Close follows.
	Drain()
}

// LossHandler is notified when its grant is lost.
type LossHandler interface {
	// Lost is called at most once for a grant that has not been released, when the backend knows or must assume that it
	// is lost. It may be called from any goroutine, even before Acquire has returned. It does not block.
	Lost(why LostReason, err error)
}

// Grant is a key that a backend holds. Its dynamic type, which is comparable, belongs to the backend.
type Grant interface {
	// Deadline is the instant until which the grant can be trusted without hearing from the server again; it moves
	// while the server answers. [Never] means that the backend has no lease.
	Deadline() Instant
}

// Holder is what holds a lock: a session, or in rows and on Redis a process. Fields that the server does not report are
// zero.
type Holder struct {
	// Shared says whether the lock is held shared.
	Shared bool
	// Self reports whether a Lock of this process holds it, as far as that is known: on PostgreSQL by the mark of its
	// process in the application name, elsewhere if it is a Lock of the same Locker. Other roles can fake the mark.
	Self bool `json:"-"`
	// Token is the holder's token where the server stores one, as Redis does. PostgreSQL does not.
	Token string
	// PID is the process ID of the PostgreSQL backend; 0 for a prepared transaction.
	PID int32
	// Prepared is the global identifier of the prepared transaction that holds the lock.
	Prepared string
	// User, Application and Client describe the session: role, application_name and network address; of a lock in a row
	// the address is the host, and the process ID there.
	User, Application, Client string
	// SessionSince is when the session started, or the process of a lock in a row.
	SessionSince time.Time
	// Since is when the lock was granted, where that is recorded: for locks in rows. PostgreSQL does not record it for
	// those of sessions.
	Since time.Time `json:",omitzero"`
}
