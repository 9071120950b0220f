// Package hooks gives the packages of this module that build on a Locker, such as semaphore and schedule, what no other
// program needs. Package pglock sets the functions. This package cannot import it, so where an argument or a result
// has a type of package pglock, its type is any here, and the comment names it.
package hooks

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// Functions of a *pglock.Locker.
var (
	// Backend returns its backend. Locks that are taken there are unknown to the Locker. After Close has begun, the error
	// matches ErrClosed.
	Backend func(locker any) (driver.Backend, error)
	// Logger returns the logger of WithLogger, or else slog.Default.
	Logger func(locker any) *slog.Logger
	// Observe tells the Observer, if there is one, of event, a pglock.Event.
	Observe func(ctx context.Context, locker, event any)
	// HandoffLimit returns the limit of WithHandoffLimit, or the default.
	HandoffLimit func(locker any) (n int, d time.Duration)
	// WhoHolds returns the []pglock.Holder of the first of keys, a []pglock.Key, that has any, as the errors of waits name
	// them; none if the server does not answer soon. ended says that a context has ended the wait.
	WhoHolds func(locker, keys any, ended bool) any
	// Watch lets the log tell of waits in a primitive's queue as of those for locks, until stop is called.
	Watch func(locker any, w *Waits) (stop func())
)

// Waits are the calls of this process that wait for something of a primitive.
type Waits struct {
	Use  any // a pglock.Use
	Keys any // the []pglock.Key of the locks whose holders they wait for
	// Now returns since when the first of them waits, and how many there are. It is called from any goroutine.
	Now func() (since driver.Instant, calls int)
}

// Await notes that a call whose context is ctx begins to wait for some of the keys, a []pglock.Key of the locker's locks,
// which its caller knows by name, a pglock.Key. It returns a *pglock.DeadlockError if that completes a cycle of calls of
// this process; otherwise the call waits with the context that is returned, whose cause may become that error later, and
// end must be called when it does not wait any more.
var Await func(ctx context.Context, locker, name, keys any, some int) (waiting context.Context, end func(), err error)

// Process makes *pglock.Lockers that have not been used those of a process of its own, as far as deadlocks go. It is for tests.
var Process func(lockers ...any)

// How long a call waits before other processes see that, and how far two looks for a deadlock with them are apart. They are
// variables for tests only: processes with unequal values have no common bound.
var (
	PublishAfter = time.Second
	ConfirmAfter = 100 * time.Millisecond
)

// HandOff ends a *pglock.Lock as Unlock does, and returns the *pglock.Lock that takes its place on the server, made with
// opts, a []pglock.LockOption, without asking the server. It is for queues outside of the Locker. They keep the handoff
// limit themselves, or other processes may never get the lock. Only the values of to, the next holder's context, matter.
//
// HandOff does not call the Observer, so it may be called under a mutex; report does, and must be called once,
// afterwards. If the lock has ended, is one of several holders, or is of several keys, or if a call of this process waits
// for the key, the error matches ErrNotAcquired, and the lock is as it was: unlock it.
var HandOff func(lock any, to context.Context, opts any) (next any, report func(), err error)

// WithUse returns a pglock.LockOption that tells the Observer what a lock is for, a pglock.Use. A try that is refused is not
// reported as Failed then: a primitive may try several locks, and reports how its own caller's request ended.
var WithUse func(use any) any

// The kinds of uses of locks that primitives take for their own purposes, which their users do not see.
const (
	UseLeaderMark    = "leader mark"    // by which the monitor recognises a leader
	UseTickMark      = "tick mark"      // by which the monitor recognises a tick
	UseSemaphoreGate = "semaphore gate" // the place at the head of a semaphore's line
)

// IsInternal reports whether a lock with a use of this kind is one that users do not see.
func IsInternal(kind string) bool {
	return kind == UseLeaderMark || kind == UseTickMark || kind == UseSemaphoreGate
}

// Settings are what the LockOptions or TxOptions of a call ask for.
type Settings struct {
	Shared                   bool
	Bounded                  bool // MaxWait was given
	MaxWait                  time.Duration
	MaxHold                  time.Duration // 0: none
	Outage                   time.Duration // RetryUnavailable; 0: none
	AllowStale, AllowStandby bool
	Observer                 any // a pglock.Observer, which may be nil
}

// ReadLockOptions returns what opts, a []pglock.LockOption, ask for.
var ReadLockOptions func(opts any) (Settings, error)

// HoldersTx asks in tx for the holders of keys, a []pglock.Key. After an error, tx cannot continue.
var HoldersTx func(ctx context.Context, tx pgx.Tx, keys any) ([]driver.Holder, error)

// ReadTxOptions returns what opts, a []pglock.TxOption, ask for.
var ReadTxOptions func(opts any) (Settings, error)

// InvalidKey returns a pglock.Key that every function refuses with ErrInvalidKey and why. It is for functions that make
// keys of values and have no error to return.
var InvalidKey func(why string) any

// DerivedContext is implemented by contexts of this module's packages that end when the one they were made from does.
type DerivedContext interface {
	Parent() context.Context
}

// Placed is implemented by backends that know when two of their Lockers take the same locks.
type Placed interface {
	// Place returns what identifies the server and database where g is held, and those where locks are taken now if g is
	// nil. Equal values, compared with ==, have the same locks; nil is unknown.
	Place(g driver.Grant) any
}

// Recorder is implemented by backends whose locks the monitor sees, by number: they have a registry of names. On these
// backends packages leader and schedule hold one more lock, by whose key the monitor recognizes what the first is for.
type Recorder interface {
	// Record writes the names of keys into the registry, in the background, if the Locker records names. A backend
	// records the keys of Acquire itself; Record is for other names, such as that of a semaphore.
	Record(key driver.Key)
}

// Queue is implemented by backends whose queue outlasts a release: a lock may be free, and the first in line not have it yet.
type Queue interface {
	// FirstInLine returns which process waits for a key that no process holds; nil if there is none.
	FirstInLine(ctx context.Context, key driver.Key) (*driver.Holder, error)
}

// ErrQueued is returned by such a backend for a try of a lock that no process holds.
var ErrQueued = fmt.Errorf("%w: a process that waits for it is ahead", driver.ErrNotAcquired)

// PostgresOptions is implemented by backends other than that of sessions which accept some of the options for PostgreSQL.
type PostgresOptions interface {
	// Configure is called before Start, with the names of the options that were given, such as "WithTrustedOwner". It returns
	// those that have no meaning.
	Configure(c PostgresConfig, given []string) (refused []string)
}

// PostgresConfig is what options for PostgreSQL ask for that are not for sessions only.
type PostgresConfig struct {
	// RecordNames asks the backend to record the names of the keys that it locks, for the monitor.
	RecordNames bool
	// Application is the name for the sessions; empty if none was chosen.
	Application string
	// TrustedOwners are further roles that may own the schema pglock.
	TrustedOwners []string
}
