// Package pglock declares what the tests need of the real package.
package pglock

import "context"

type (
	Key    struct{}
	Locker struct{}
	Lock   struct{}
)

func NewKey(string) Key        { return Key{} }
func Int64Key(int64) Key       { return Key{} }
func PairKey(int32, int32) Key { return Key{} }

func (*Locker) Lock(context.Context, Key) (*Lock, error)                          { return nil, nil }
func (*Locker) TryLock(context.Context, Key) (*Lock, error)                       { return nil, nil }
func (*Locker) LockAll(context.Context, []Key) (*Lock, error)                     { return nil, nil }
func (*Locker) Do(context.Context, Key, func(context.Context, *Lock) error) error { return nil }

func (*Lock) Unlock(context.Context) error                   { return nil }
func (*Lock) Context(parent context.Context) context.Context { return parent }
func (*Lock) Key() Key                                       { return Key{} }
func (*Lock) Err() error                                     { return nil }
