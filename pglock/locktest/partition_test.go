package locktest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/locktest"
)

func wantError(t *testing.T, err, want error, what string) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got error %v, want one that matches %q", what, err, want)
	}
}

func TestPartitionEndsLocksBeforeOthersGetThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, ctx := locktest.NewServer(), t.Context()
		l, other := openMemory(t, server, pglock.WithLease(10*time.Second)), openMemory(t, server)
		key := pglock.NewKey("k")
		lock, err := l.Lock(ctx, key)
		must.Succeed(t, err)
		start := time.Now()
		heal := server.Partition(l)
		ended := make(chan time.Duration, 1)
		go func() { <-lock.Done(); ended <- time.Since(start) }()

		_, err = l.TryLock(ctx, pglock.NewKey("free"))
		wantError(t, err, pglock.ErrUnavailable, "TryLock in a partition")
		wantError(t, l.Ping(ctx), pglock.ErrUnavailable, "Ping in a partition")
		wantError(t, lock.Verify(ctx), pglock.ErrUnavailable, "Verify in a partition")
		if deadline, ok := lock.Deadline(); !ok || deadline.Sub(start) != 9*time.Second {
			t.Errorf("the lock's deadline is in %v", deadline.Sub(start))
		}
		theirs, err := other.Lock(ctx, key)
		must.Succeed(t, err)
		if got := time.Since(start); got != 10*time.Second {
			t.Errorf("another process had the lock after %v, want the lease, 10s", got)
		}
		if got := <-ended; got != 9*time.Second {
			t.Errorf("the lock ended after %v, want 9s", got)
		}
		lost := (*pglock.LostError)(nil)
		if err := lock.Unlock(ctx); !errors.As(err, &lost) || lost.Reason != pglock.LostLease {
			t.Errorf("Unlock: %v", err)
		}
		heal()
		heal()
		must.Succeed(t, theirs.Unlock(ctx))
		again, err := l.Lock(ctx, key)
		must.Succeed(t, err)
		must.Succeed(t, again.Unlock(ctx))
	})
}

func TestAShortPartitionLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, ctx := locktest.NewServer(), t.Context()
		l, other := openMemory(t, server), openMemory(t, server)
		kept, unlocked, awaited := pglock.NewKey("kept"), pglock.NewKey("unlocked"), pglock.NewKey("awaited")
		lock, err := l.Lock(ctx, kept)
		must.Succeed(t, err)
		second, err := l.Lock(ctx, unlocked)
		must.Succeed(t, err)
		theirs, err := other.Lock(ctx, awaited)
		must.Succeed(t, err)
		waits := make(chan error, 1)
		go func() { _, err := l.Lock(ctx, awaited); waits <- err }()
		retries := make(chan error, 1)
		go func() {
			lock, err := l.Lock(ctx, awaited, pglock.RetryUnavailable(time.Minute))
			if err == nil {
				err = lock.Unlock(ctx)
			}
			retries <- err
		}()
		synctest.Wait()
		heal := server.Partition()
		wantError(t, <-waits, pglock.ErrUnavailable, "a wait when the partition begins")
		wantError(t, second.Unlock(ctx), pglock.ErrUnavailable, "Unlock in a partition")
		time.Sleep(5 * time.Second)
		heal()
		must.Succeed(t, lock.Verify(ctx))
		if _, ok := lock.Deadline(); ok {
			t.Error("a lock in memory has a deadline after the partition")
		}
		again, err := other.TryLock(ctx, unlocked)
		must.Succeed(t, err)
		must.Succeed(t, again.Unlock(ctx))
		must.Succeed(t, theirs.Unlock(ctx))
		must.Succeed(t, <-retries)
		time.Sleep(time.Hour)
		must.Succeed(t, lock.Unlock(ctx))
	})
}

// A service that writes under Do and GuardTx is tested without a server.
func TestGuardTxInMemoryRefusesTheTransactionOfALostLock(t *testing.T) {
	server, ctx := locktest.NewServer(), t.Context()
	l := openMemory(t, server)
	key := pglock.NewKey("k")
	write := func(lost bool) (tx *locktest.Tx, err error) {
		tx = server.Tx(nil)
		err = l.Do(ctx, key, func(ctx context.Context, lock *pglock.Lock) error {
			if lost {
				server.Lose(key)
			}
			if err := lock.GuardTx(ctx, tx); err != nil {
				return err
			}
			_, err := tx.Exec(context.Background(), "update accounts")
			return errors.Join(err, tx.Commit(context.Background()))
		})
		return tx, err
	}
	tx, err := write(false)
	must.Succeed(t, err)
	if got := tx.Statements(); len(got) != 1 || got[0] != "update accounts" {
		t.Errorf("the statements are %q", got)
	}
	tx, err = write(true)
	wantError(t, err, pglock.ErrLost, "a write under a lost lock")
	if _, err := tx.Exec(ctx, "update accounts"); err == nil || len(tx.Statements()) != 0 {
		t.Errorf("an aborted transaction carries out statements: %v, %q", err, tx.Statements())
	}
	if err := tx.Commit(ctx); err == nil {
		t.Error("an aborted transaction commits")
	}
}

func TestGuardTxInMemoryWaitsForTheTransactionsOfEarlierHolders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, ctx := locktest.NewServer(), t.Context()
		l, other := openMemory(t, server), openMemory(t, server)
		key := pglock.NewKey("k")
		lock, err := l.Lock(ctx, key)
		must.Succeed(t, err)
		stale, side := server.Tx(nil), server.Tx(nil)
		must.Succeed(t, lock.GuardTx(ctx, stale))
		must.Succeed(t, lock.GuardTx(ctx, side)) // side by side
		must.Succeed(t, side.Rollback(ctx))
		server.Lose(key)
		next, err := other.Lock(ctx, key)
		must.Succeed(t, err)
		time.AfterFunc(time.Second, func() { must.Succeed(t, stale.Commit(context.Background())) })
		start, tx := time.Now(), server.Tx(nil)
		must.Succeed(t, next.GuardTx(ctx, tx))
		if waited := time.Since(start); waited != time.Second {
			t.Errorf("GuardTx waited for %v, want until the stale transaction had ended", waited)
		}
		nested, err := tx.Begin(ctx)
		must.Succeed(t, err)
		if err := next.GuardTx(ctx, nested); err == nil {
			t.Error("a savepoint was guarded")
		}
		must.Succeed(t, tx.Commit(ctx))
		must.Succeed(t, next.Unlock(ctx))
		if err := next.GuardTx(ctx, locktest.NewServer().Tx(nil)); err == nil {
			t.Error("a transaction of another Server was guarded")
		}
	})
}
