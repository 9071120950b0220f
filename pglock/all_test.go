package pglock_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/locktest"
)

// A LockAll that waits keeps what it has, and no later key. So callers that keep the order of keys go on, whether they take
// them one by one or together.
func TestLockAllThatWaitsKeepsNoLaterKey(t *testing.T) {
	for _, opts := range [][]pglock.LockOption{nil, {pglock.Shared()}} {
		synctest.Test(t, func(t *testing.T) {
			r := newRing(t, 2)
			a, b, c := pglock.Int64Key(1), pglock.Int64Key(2), pglock.Int64Key(3)
			elsewhere := mustLock(t, r.lockers[1], a)
			all := txGo(func() error {
				lock, err := r.lockers[0].LockAll(t.Context(), []pglock.Key{a, c}, opts...)
				return errors.Join(err, lock.Unlock(t.Context()))
			})
			synctest.Wait() // for the server, which has granted a to the other process
			second := mustLock(t, r.lockers[0], b)
			behind := txGo(func() error { return r.lockers[1].Do(t.Context(), b, nothing) }) // it has a
			synctest.Wait()
			last, err := r.lockers[0].Lock(t.Context(), c, append(opts, pglock.MaxWait(time.Minute))...)
			if err != nil {
				t.Fatalf("a key after the one that a LockAll of the process waits for: %v", err)
			}
			txCheck(t, errors.Join(last.Unlock(t.Context()), second.Unlock(t.Context()), <-behind, elsewhere.Unlock(t.Context()), <-all))
		})
	}
}

// A LockAll that loses a key while it waits for the next one begins again. Its caller sees one Lock, which ends when any of its
// keys is lost, and then keeps none of them.
func TestLockAllThatLosesAKeyBeginsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, seen := locktest.NewServer(), journal{}
		l, err := server.Locker(pglock.WithObserver(seen.observe))
		txCheck(t, err)
		other, err := server.Locker()
		txCheck(t, err)
		a, b := pglock.Int64Key(1), pglock.Int64Key(2)
		busy := mustLock(t, other, b)
		granted := make(chan *pglock.Lock)
		go func() {
			lock, err := l.LockAll(t.Context(), []pglock.Key{a, b})
			txCheck(t, err)
			granted <- lock
		}()
		synctest.Wait()
		if n := server.Lose(a); n != 1 {
			t.Fatalf("%d have the first key", n)
		}
		synctest.Wait()
		if holders, err := l.Holders(t.Context(), a); err != nil || len(holders) != 1 {
			t.Errorf("the first key, after its loss: %v, %v", holders, err)
		}
		txCheck(t, busy.Unlock(t.Context()))
		both := <-granted
		if s := l.Stats(); s.Held != 1 || s.Acquired != 1 || s.Lost != 0 {
			t.Errorf("with one Lock: %+v", s)
		}
		want := []string{"wait started @1", "waited @1 true", "acquired @1"}
		if !slices.Equal(seen.lines, want) {
			t.Errorf("the Observer was told %q, want %q", seen.lines, want)
		}
		server.Lose(a)
		if !errors.Is(both.Err(), pglock.ErrLost) {
			t.Errorf("without one of its keys: %v", both.Err())
		}
		txCheck(t, other.Do(t.Context(), b, nothing)) // it is released
		if s := l.Stats(); s.Held != 0 || s.Acquired != 1 || s.Lost != 1 {
			t.Errorf("after the loss: %+v", s)
		}
		txCheck(t, errors.Join(l.Close(t.Context()), other.Close(t.Context())))
	})
}

// What a LockAll has when its wait ends is given back before it returns.
func TestLockAllThatFailsHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, keys := newRing(t, 2), []pglock.Key{pglock.Int64Key(1), pglock.Int64Key(2), pglock.Int64Key(3)}
		busy := mustLock(t, r.lockers[1], keys[2])
		_, err := r.lockers[0].LockAll(t.Context(), keys, pglock.MaxWait(time.Second))
		wait := (*pglock.WaitError)(nil)
		if !errors.As(err, &wait) || len(wait.Keys) != len(keys) || len(wait.Holders) != 1 {
			t.Errorf("LockAll: %v", err)
		}
		first, err := r.lockers[1].TryLockAll(t.Context(), keys[:2])
		txCheck(t, err)
		txCheck(t, errors.Join(first.Unlock(t.Context()), busy.Unlock(t.Context())))
		if s := r.lockers[0].Stats(); s.Held != 0 || s.Acquired != 0 {
			t.Errorf("after the failure: %+v", s)
		}
	})
}

// halting is a server that has granted all keys but one to others, and does not answer releases until it is told to. If silent is
// set, it does not answer who waits either, and loses the one key.
type halting struct {
	scripted
	free     driver.KeyID
	released chan struct{}
	silent   <-chan struct{}
	loss     driver.LossHandler
}

func (h *halting) Acquire(_ context.Context, r driver.Request) (driver.Grant, error) {
	if r.Key.KeyID == h.free {
		h.loss = r.LossHandler
		return h, nil
	}
	if r.Wait && h.silent != nil {
		h.loss.Lost(driver.LostSession, nil)
		return nil, &driver.UnsettledError{Err: errors.Join(driver.ErrUnavailable, driver.ErrLost), Done: h.silent}
	}
	return nil, driver.ErrNotAcquired
}

func (h *halting) Release(context.Context, driver.Grant) error {
	<-h.released
	return nil
}

// While the server has not confirmed that a key is free again, a caller must not ask for it.
func TestLockAllThatMayStillHoldAKeyIsUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free, busy := pglock.Int64Key(1), pglock.Int64Key(2)
		h := &halting{free: free.ID(), released: make(chan struct{})}
		l, err := pglock.NewWithBackend(h)
		txCheck(t, err)
		_, err = l.TryLockAll(t.Context(), []pglock.Key{free, busy}, pglock.Shared())
		if !errors.Is(err, pglock.ErrUnavailable) || errors.Is(err, pglock.ErrNotAcquired) {
			t.Errorf("TryLockAll: %v", err)
		}
		if _, err := l.TryLock(t.Context(), free); !errors.Is(err, pglock.ErrNotAcquired) {
			t.Errorf("a key that may be held: %v", err)
		}
		h.released <- struct{}{}
		closed := txGo(func() error { time.Sleep(time.Minute); return l.Close(t.Context()) })
		// It gets the free key, and then waits for the release of that.
		_, err = l.LockAll(t.Context(), []pglock.Key{free, busy}, pglock.RetryUnavailable(time.Hour))
		if !errors.Is(err, pglock.ErrClosed) || !errors.Is(err, pglock.ErrUnavailable) {
			t.Errorf("LockAll, ended by Close: %v", err)
		}
		close(h.released)
		txCheck(t, <-closed)
		h.silent = t.Context().Done()
		l, err = pglock.NewWithBackend(h)
		txCheck(t, err)
		_, err = l.LockAll(t.Context(), []pglock.Key{free, busy}, pglock.MaxWait(time.Minute))
		if !errors.Is(err, pglock.ErrUnavailable) || errors.Is(err, pglock.ErrLost) {
			t.Errorf("LockAll, which has lost a key: %v", err)
		}
	})
}

// Of callers that try the same free keys at the same moment one gets them.
func TestLockAllTryOfSameKeysHasAWinner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, keys := newRing(t, 2), []pglock.Key{pglock.Int64Key(1), pglock.Int64Key(2)}
		for range 500 {
			got := make(chan *pglock.Lock, 4)
			for i := range cap(got) {
				go func() {
					lock, err := r.lockers[i%2].TryLockAll(t.Context(), keys)
					if err != nil && !errors.Is(err, pglock.ErrNotAcquired) {
						t.Error(err)
					}
					got <- lock
				}()
			}
			winners := 0
			for range cap(got) {
				if lock := <-got; lock != nil {
					winners++
					txCheck(t, lock.Unlock(t.Context()))
				}
			}
			if winners == 0 {
				t.Fatal("none has got the keys")
			}
		}
	})
}

// An error names the holders of the key that was waited for. The end of the context by another call's deadlock leaves that
// call's error as it was.
func TestLockAllSaysWhatItHasWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, a, b, other := newRing(t, 2), pglock.Int64Key(1), pglock.Int64Key(2), pglock.Int64Key(3)
		busy, held := mustLock(t, r.lockers[1], b), mustLock(t, r.lockers[0], other)
		all := func(ctx context.Context) error {
			_, err := r.lockers[0].LockAll(ctx, []pglock.Key{a, b}, pglock.MaxWait(time.Minute))
			return err
		}
		waiting := txGo(func() error { return all(t.Context()) })
		synctest.Wait()
		next := txGo(func() error {
			return r.lockers[1].Do(t.Context(), a, func(context.Context, *pglock.Lock) error { time.Sleep(time.Second); return nil })
		})
		wait := (*pglock.WaitError)(nil)
		if err := <-waiting; !errors.As(err, &wait) || len(wait.Holders) != 1 || wait.Holders[0].Token != busy.Token() {
			t.Errorf("it has waited for the second key: %v", err)
		}
		_, cause := r.lockers[0].Lock(held.Context(t.Context()), other)
		text := cause.Error()
		ctx, cancel := context.WithCancelCause(t.Context())
		waiting = txGo(func() error { return all(ctx) })
		synctest.Wait()
		cancel(cause)
		if err := <-waiting; !errors.Is(err, pglock.ErrDeadlock) || cause.Error() != text {
			t.Errorf("%v, and the cause of its context was %q and is %q", err, text, cause)
		}
		txCheck(t, errors.Join(<-next, busy.Unlock(t.Context()), held.Unlock(t.Context())))
	})
}
