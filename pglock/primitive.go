package pglock

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/txlock"
)

// This file is what packages that build on a Locker need and its other users do not: semaphore, schedule and leader, and
// those of others.

// Backend returns the backend of l, for packages that use abilities of it which the Locker does not have, as package
// schedule uses its records. Locks that are taken there are unknown to the Locker. After [Locker.Close] has begun, the
// error matches [ErrClosed].
func (l *Locker) Backend() (driver.Backend, error) {
	if err := l.checkOpen(); err != nil {
		return nil, err
	}
	return l.backend, nil
}

// Logger returns the logger of [WithLogger], or else [slog.Default].
func (l *Locker) Logger() *slog.Logger {
	if l.config.logs {
		return l.config.env.Logger
	}
	return slog.Default()
}

// Observer returns the Observer of [WithObserver], or else one without functions.
func (l *Locker) Observer() *Observer {
	if l.config.observer == nil {
		return &Observer{}
	}
	return l.config.observer
}

// ReportFailed counts a failed call in [Stats], and reports it to the Observer. It is for calls that ask for something
// other than one lock, such as a permit of a semaphore.
func (l *Locker) ReportFailed(ctx context.Context, f FailedInfo) {
	if len(f.Keys) > 0 {
		l.shardOf(f.Keys[0].ID()).countFailure(f.Try, f.Err)
	}
	if o := l.Observer(); o.Failed != nil {
		o.Failed(ctx, f)
	}
}

// HandoffLimit returns the limit of [WithHandoffLimit], or the default.
func (l *Locker) HandoffLimit() (n int, d time.Duration) {
	return l.config.handoffs, l.config.handoffFor
}

// LockSettings are what a call's LockOptions ask for.
type LockSettings struct {
	Shared  bool
	Bounded bool // MaxWait was given
	MaxWait time.Duration
	MaxHold time.Duration // 0: none
	Token   string        // "": a random one
	Outage  time.Duration // RetryUnavailable; 0: none
}

// ReadLockOptions returns what opts ask for.
func ReadLockOptions(opts ...LockOption) (LockSettings, error) {
	var c lockConfig
	err := c.read(opts)
	return LockSettings{
		Shared: c.shared, Bounded: c.bounded, MaxWait: c.maxWait, MaxHold: c.maxHold, Token: c.token, Outage: c.outage,
	}, err
}

// InvalidKey returns a key that every function refuses with [ErrInvalidKey] and why. It is for functions that make keys of
// values and have no error to return, such as those of generated packages.
func InvalidKey(why string) Key { return Key{k: driver.Key{Name: why}} }

// RefusedOption returns an option that all calls refuse with err. A package whose calls take LockOptions and also options of
// its own embeds it in those, so that they have the type of a LockOption, and no other call ignores them.
func RefusedOption(err error) LockOption {
	return lockOption(func(*lockConfig) error { return err })
}

// TxSettings are what a call's TxOptions ask for.
type TxSettings struct {
	Shared                   bool
	Bounded                  bool // MaxWait was given
	MaxWait                  time.Duration
	AllowStale, AllowStandby bool
	Observer                 *Observer // nil: none
}

// ReadTxOptions returns what opts ask for.
func ReadTxOptions(opts ...TxOption) (TxSettings, error) {
	c, err := newTxConfig(opts)
	return TxSettings{
		Shared: c.shared, Bounded: c.bounded, MaxWait: c.maxWait, AllowStale: c.allowStale, AllowStandby: c.allowStandby,
		Observer: c.observer,
	}, err
}

// HoldersTx asks, in a transaction, for the present holders of the keys' advisory locks; each session is one holder. If the server
// refuses to say, the result is empty. An error means that the transaction cannot continue.
func HoldersTx(ctx context.Context, tx pgx.Tx, keys ...Key) (all []Holder, err error) {
	if err := checkTx(tx, keys...); err != nil || len(keys) == 0 {
		return nil, err
	}
	own, ok := tx.(txlock.Tx)
	if !ok {
		return holdersTx(ctx, tx, keys)
	}
	for _, key := range keys {
		holders, err := own.HoldersTx(ctx, key.k)
		if err != nil {
			return nil, err
		}
		all = append(all, holders...)
	}
	return all, nil
}
