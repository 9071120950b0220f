// Package pglock declares what the tests need of the real package.
package pglock

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

type (
	Key      struct{}
	Locker   struct{}
	Lock     struct{}
	Option   struct{}
	TxOption struct{}
)

func NewKey(string) Key        { return Key{} }
func Int64Key(int64) Key       { return Key{} }
func PairKey(int32, int32) Key { return Key{} }

func MaxWait(time.Duration) Option { return Option{} }
func MaxHold(time.Duration) Option { return Option{} }
func Shared() Option               { return Option{} }

func (*Locker) Lock(context.Context, Key, ...Option) (*Lock, error)      { return nil, nil }
func (*Locker) TryLock(context.Context, Key, ...Option) (*Lock, error)   { return nil, nil }
func (*Locker) LockAll(context.Context, []Key, ...Option) (*Lock, error) { return nil, nil }
func (*Locker) Do(context.Context, Key, func(context.Context, *Lock) error, ...Option) error {
	return nil
}

func (*Lock) Unlock(context.Context) error                   { return nil }
func (*Lock) Context(parent context.Context) context.Context { return parent }
func (*Lock) Key() Key                                       { return Key{} }
func (*Lock) Err() error                                     { return nil }
func (*Lock) GuardTx(context.Context, pgx.Tx) error          { return nil }
func (*Lock) Fence(context.Context) (int64, error)           { return 0, nil }

func LockTx(context.Context, pgx.Tx, Key, ...Option) error      { return nil }
func TryLockTx(context.Context, pgx.Tx, Key, ...Option) error   { return nil }
func LockAllTx(context.Context, pgx.Tx, []Key, ...Option) error { return nil }
