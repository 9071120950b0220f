// Package bridge lets the primitives that are built on package pglock, such as semaphores, do what its users do not
// need: read the options that their callers made, pass a lock on to one of their own waiters, and say what a lock is
// for.
//
// Package pglock fills the variables in when it is initialised. Its own types appear as any, since it imports this
// package; each comment says which they are.
package bridge

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
)

// LockOptions are the settings in a []pglock.LockOption.
type LockOptions struct {
	Shared  bool
	Bounded bool // MaxWait was given
	MaxWait time.Duration
	MaxHold time.Duration // 0: none
	Token   string        // "": a random one
	Outage  time.Duration // RetryUnavailable; 0: none
}

// SlotTx is how a transaction's search for a slot of a semaphore ended.
type SlotTx int

const (
	// SlotGranted: the transaction has a slot.
	SlotGranted SlotTx = iota
	// SlotsHeld: all slots are held.
	SlotsHeld
	// SlotQueued: others wait for a slot.
	SlotQueued
)

// The functions of package pglock for its primitives.
var (
	// ReadLockOptions reads a []pglock.LockOption.
	ReadLockOptions func(opts any) (LockOptions, error)
	// ReadMaxWait returns the MaxWait of a []pglock.TxOption, and refuses Shared.
	ReadMaxWait func(opts any) (maxWait time.Duration, bounded bool, err error)

	// WithUse makes a pglock.LockOption that reports to the Observer what the lock is for: kind is a pglock.UseKind's
	// text, key the pglock.Key of the primitive.
	WithUse func(kind string, key any) any

	// PassOn ends lock, a *pglock.Lock, as Unlock does, and returns the *pglock.Lock that takes its place on the
	// server, made with opts, a []pglock.LockOption, without asking the server. It does not check the handoff limit. If
	// the lock has ended it does nothing and returns ok false. It does not call the Observer: report does, and must be
	// called afterwards. from and to are the contexts of the two holders, for their values.
	PassOn func(from, to context.Context, lock any, opts any) (next any, report func(), ok bool)

	// HandoffLimit returns the handoff limit of locker, a *pglock.Locker.
	HandoffLimit func(locker any) (handoffs int, lasting time.Duration)

	// PermitsAwaited reports to the Observer of locker, a *pglock.Locker, that a call waits for permits of the
	// semaphore of key, a pglock.Key, and returns the context for PermitsAsked.
	PermitsAwaited func(ctx context.Context, locker, key any) context.Context
	// PermitsAsked reports to the Observer how a call for permits ended: err is the call's error.
	PermitsAsked func(ctx context.Context, locker, key any, try, awaited bool, waited time.Duration, err error)

	// Logger returns the logger of locker, a *pglock.Locker, for warnings.
	Logger func(locker any) *slog.Logger
	// RecordName writes name into the registry of locker, a *pglock.Locker, if it records names.
	RecordName func(locker any, name string)
	// Monitored reports whether the monitor can see the locks of locker, a *pglock.Locker.
	Monitored func(locker any) bool

	// TrySlotTx takes one of the slots of a semaphore for the rest of tx. key and gate are pglock.Keys: the semaphore's and
	// its gate's. The keys of the slots, of which there are as many as slots says, follow the gate's; opts is a
	// []pglock.TxOption.
	TrySlotTx func(ctx context.Context, tx pgx.Tx, key, gate any, slots int, opts any) (SlotTx, error)
	// SlotHoldersTx returns the []pglock.Holder of the slots.
	SlotHoldersTx func(ctx context.Context, tx pgx.Tx, gate any, slots int) (any, error)
)
