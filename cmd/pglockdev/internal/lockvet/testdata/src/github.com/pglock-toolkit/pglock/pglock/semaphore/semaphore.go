// Package semaphore declares what the tests need of the real package.
package semaphore

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/pglock"
)

type (
	Semaphore struct{}
	Permit    struct{}
)

func (*Semaphore) Acquire(context.Context, ...pglock.Option) (*Permit, error)    { return nil, nil }
func (*Semaphore) TryAcquire(context.Context, ...pglock.Option) (*Permit, error) { return nil, nil }
func (*Semaphore) Do(context.Context, func(context.Context, *Permit) error, ...pglock.Option) error {
	return nil
}

func (*Semaphore) AcquireN(context.Context, int, ...pglock.Option) (*Permit, error) { return nil, nil }

func (*Permit) Context(ctx context.Context) context.Context { return ctx }
func (*Permit) Release(context.Context) error               { return nil }
func (*Permit) GuardTx(context.Context, pgx.Tx) error       { return nil }
