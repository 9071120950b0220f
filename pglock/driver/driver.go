// Package driver is the contract between package pglock and the servers that keep its locks, as database/sql/driver
// is for databases. Import it to write a backend; to use locks, import package pglock.
//
// The front end (package pglock) owns everything that is the same on every server: the queue among the goroutines of
// a process, deadlines, contexts, options and error texts. A backend owns sessions and wires: it takes a set of keys,
// gives them back, says what it knows of their holders, and calls out when it lost them.
//
// The package is unstable before v1.
package driver

import (
	"context"
	"log/slog"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

// ReleaseWithin is how long a backend waits for its server to confirm a release.
const ReleaseWithin = 5 * time.Second

// Backend keeps locks on some server. All methods may be called from many goroutines at once.
type Backend interface {
	// Start is called once, before anything else and without a context: it must not touch the network. It refuses
	// settings that the backend cannot honour with an error that matches [ErrUnsupported].
	Start(env Env) error

	// Ping reaches the server, dialling if it must, and runs the backend's guards: an error says that locks cannot be
	// taken and why ([ErrUnavailable], [ErrPooler], [ErrStandby], [ErrUnsupported], [ErrSchemaMissing]).
	Ping(ctx context.Context) error

	// Acquire takes all of r.Keys or none of them. With r.Wait it waits for its turn until ctx ends, and then returns
	// the context's error; without, it answers at once, with [ErrNotAcquired] when another holder is in the way. The
	// front end asks without waiting first, always.
	//
	// When it returns an error, nothing is held, and nothing will be: if a grant and the end of ctx meet, Acquire
	// either returns the grant or gives it back before it returns. A server that cannot be reached is reported as
	// [ErrUnavailable] after one fresh attempt, never waited for.
	//
	// Where even that takes too long, since the server does not answer, the error is an [*Unsettled]; the front end asks for
	// none of the keys before its Done is closed. So may the error of Release be.
	Acquire(ctx context.Context, r Request) (Grant, error)

	// Release gives up g. It returns an error that matches [ErrLost] when the lock had already been lost; whatever it
	// returns, the backend no longer holds g when the server can be reached. The front end calls it once for a grant.
	// ctx is for its values: Release does not follow its end, and gives up by itself after [ReleaseWithin].
	Release(ctx context.Context, g Grant) error

	// Check asks the server whether g is still held: nil, an error that matches [ErrLost], or [ErrUnavailable] when
	// there was no answer.
	Check(ctx context.Context, g Grant) error

	// Holders lists who holds k now, whichever process that is; it is empty when k is free.
	Holders(ctx context.Context, k Key) ([]Holder, error)

	// Close ends every session. The front end has released all grants by then, or given them up.
	Close(ctx context.Context) error
}

// NamedLocks is implemented by backends whose server knows locks by their texts, [Key.String], and not by their numbers.
type NamedLocks interface {
	// LocksByName reports whether keys with equal KeyIDs and different names are different locks: two names whose hashes
	// collide, or a name and the raw key of its number. Without this method they are the same lock.
	LocksByName() bool
}

// Fencer is implemented by backends that can number the holders of a lock.
type Fencer interface {
	// Fence returns a number that is larger than that of every earlier holder of any of g's keys. [ErrSchemaMissing]
	// says that the server lacks what that needs.
	Fence(ctx context.Context, g Grant) (int64, error)
}

// TxGuard is implemented by backends that can tie a transaction to a lock.
type TxGuard interface {
	// GuardTx makes tx one that cannot commit if g had been lost when GuardTx was called, and that the guarded transactions
	// of every later holder wait for. Those of one holder run side by side. The front end sets first until a call for a
	// Lock has succeeded: only then may guarded transactions of earlier holders still run, which the backend
	// has to wait for. It never makes two such calls for one Lock at a time.
	//
	// The error matches [ErrLost] when g is lost. Whatever it is, but for [ErrStaleSnapshot], the front end aborts tx.
	GuardTx(ctx context.Context, tx pgx.Tx, g Grant, first bool) error
}

// TxWitness is implemented by backends that can find out where a transaction runs.
type TxWitness interface {
	// Sees reports whether tx is on the server, and in the database, that has g, as that server says itself. The transaction
	// can go on afterwards, whatever the answer. The front end asks only to refuse a call that would wait for itself, so a
	// false that should be true costs little, and a true must be certain.
	Sees(ctx context.Context, tx pgx.Tx, g Grant) (bool, error)
}

// Env is what the front end gives a backend at its start.
type Env struct {
	// Lease is how long a silent client keeps its locks. Zero means the backend's default.
	Lease time.Duration
	// Logger is never nil.
	Logger *slog.Logger
	// RecordNames asks the backend to record the names of the keys that it locks, for the monitor.
	RecordNames bool
}

// Request says what to acquire.
type Request struct {
	// Keys are valid, of distinct locks, in the order of [Key.Compare], and at least one. The backend must not keep the slice.
	Keys []Key
	// Shared asks for shared locks, of which a key may have many at once.
	Shared bool
	// Wait asks to wait for the turn of this request; otherwise the answer comes at once.
	Wait bool
	// Token is unique per acquisition, or what the caller chose. Backends whose server stores a token store this one.
	Token Token
	// Owner is told when the grant is lost.
	Owner Owner
}

// Refuser is implemented by backends whose Acquire may take long even where it is not to wait, because the server cannot be
// reached.
type Refuser interface {
	// Refuse is called when the Locker begins to close. From then on Acquire fails with [ErrClosed], and so do calls that
	// have not been sent to the server yet; grants are kept, and released as ever. Close follows.
	Refuse()
}

// Owner is who a grant was made for.
type Owner interface {
	// Lost is called at most once for a grant, and only while it has not been released, when the backend knows or must
	// assume that it is gone. It may be called before Acquire has returned, from any goroutine, and does not block.
	Lost(why Reason, err error)
}

// Token identifies an acquisition. It is put together only where its text is needed.
type Token struct {
	Text   string
	Number uint64 // follows the text, unless it is zero
}

// String returns the token's text.
func (t Token) String() string {
	if t.Number == 0 {
		return t.Text
	}
	return string(strconv.AppendUint(append(make([]byte, 0, len(t.Text)+20), t.Text...), t.Number, 10))
}

// Grant is a set of keys that a backend holds. Its dynamic type belongs to the backend.
type Grant interface {
	// Deadline is the instant until which the grant can be trusted without hearing from the server again; it moves
	// while the server answers. [Never] means that the backend has no lease.
	Deadline() Instant
}

// Poller is implemented by grants of backends that sometimes have to poll.
type Poller interface {
	// Polled reports whether the grant was had by asking again and again, without a place in the server's queue.
	Polled() bool
}

// Holder is a session that holds a lock, as far as the server tells; what it does not tell is left zero.
type Holder struct {
	// Shared says whether the lock is held shared.
	Shared bool
	// Token is the holder's token where the server stores one, or where the holder is this process.
	Token string
	// PID is the process ID of the PostgreSQL backend; 0 for a prepared transaction.
	PID int32
	// Prepared is the global identifier of the prepared transaction that holds the lock.
	Prepared string
	// User, Application and Client describe the session: role, application_name and network address.
	User, Application, Client string
	// SessionSince is when the session started. PostgreSQL does not record when a lock was granted.
	SessionSince time.Time
}

// Recorder is implemented by backends with a registry of names, which the monitor reads.
type Recorder interface {
	// Record writes the names of keys into the registry, in the background.
	Record(keys []Key)
}
