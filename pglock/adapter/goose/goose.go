// Package goose runs goose's migrations under a pglock lock.
//
// [NewLocker] is for goose.WithLocker. goose creates its version table before it locks, and continues even if the lock is
// lost. Where the call of goose can be wrapped, [pglock.Locker.Do] without this package does better: all of it happens
// under the lock, with a context that ends with the lock. Waiters hold no snapshot, so CREATE INDEX CONCURRENTLY in a
// migration does not wait for the processes that wait for the lock.
package goose

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"

	"github.com/pressly/goose/v3/lock"

	"github.com/pglock-toolkit/pglock/pglock"
)

// NewLocker returns a Locker for goose.WithLocker that takes the lock of key. The lock is held on a session of l; the
// database that goose passes is not used. Options are those of [pglock.Locker.Lock].
func NewLocker(l *pglock.Locker, key pglock.Key, opts ...pglock.LockOption) (lock.Locker, error) {
	if l == nil {
		return nil, errors.New("goose: the Locker is nil")
	}
	return &locker{locker: l, key: key, opts: opts}, nil
}

// locker holds at most one lock. Its methods may be called concurrently; goose calls them one after another.
type locker struct {
	locker *pglock.Locker
	key    pglock.Key
	opts   []pglock.LockOption

	mu   sync.Mutex
	held *pglock.Lock
}

// Lock takes the lock, waiting until it is granted or ctx ends.
func (l *locker) Lock(ctx context.Context, _ *sql.DB) error {
	held, err := l.locker.Lock(ctx, l.key, l.opts...)
	if err != nil {
		return fmt.Errorf("goose: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = held // locks are not reentrant, so no other lock can be held
	return nil
}

// Unlock releases the lock. The error matches pglock.ErrLost when the lock was lost while goose migrated.
func (l *locker) Unlock(ctx context.Context, _ *sql.DB) error {
	l.mu.Lock()
	held := l.held
	l.held = nil
	l.mu.Unlock()
	if held == nil {
		return fmt.Errorf("goose: unlock %s: %w", l.key, pglock.ErrUnlocked)
	}
	if err := held.Unlock(ctx); err != nil {
		return fmt.Errorf("goose: %w", err)
	}
	return nil
}
