//pglock:allow these are tests: many locks are never granted

package pglock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/locktest"
	"github.com/pglock-toolkit/pglock/pglock/semaphore"
)

// ring has the calls of a cycle: each holds one thing and waits for the next one's.
type ring struct {
	t       *testing.T
	lockers []*pglock.Locker
	all     sync.WaitGroup
	victims atomic.Int32
}

// newRing has Lockers in memory, which one server serves.
func newRing(t *testing.T, lockers int) *ring {
	r, server := &ring{t: t}, locktest.NewServer()
	for range lockers {
		l, err := server.Locker()
		r.lockers = append(r.lockers, closing(t, l, err))
	}
	return r
}

func closing(t *testing.T, l *pglock.Locker, err error) *pglock.Locker {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return l
}

func (r *ring) locker() *pglock.Locker { return r.lockers[rand.IntN(len(r.lockers))] }

// hold is a lock or a permit.
type hold interface {
	Context(context.Context) context.Context
}

func unlock(ctx context.Context, h hold) error {
	if p, ok := h.(*semaphore.Permit); ok {
		return p.Release(ctx)
	}
	return h.(*pglock.Lock).Unlock(ctx)
}

// thing is what a call can hold, and another wait for.
type thing func(ctx context.Context) (hold, error)

// lock returns a key of its own, which is locked in one of several ways.
func (r *ring) lock(name string) thing {
	key, other := pglock.NewKey(name), pglock.NewKey(name+" too")
	sems := map[*pglock.Locker]*semaphore.Semaphore{}
	for _, l := range r.lockers {
		sem, err := semaphore.New(l, key, 2)
		if err != nil {
			r.t.Fatal(err)
		}
		sems[l] = sem
	}
	kind := rand.IntN(4)
	return func(ctx context.Context) (hold, error) {
		l := r.locker()
		switch kind {
		case 0:
			return l.LockAll(ctx, []pglock.Key{other, key})
		case 1:
			return sems[l].AcquireN(ctx, 2)
		}
		return l.Lock(ctx, key)
	}
}

// run begins a call that holds mine, and then waits for the other one. It notes a victim.
func (r *ring) run(mine, other thing, have *sync.WaitGroup) {
	r.all.Go(func() {
		ctx, cancel := context.WithTimeout(r.t.Context(), time.Hour)
		defer cancel()
		held, err := mine(ctx)
		have.Done()
		if err != nil {
			r.t.Error(err)
			return
		}
		have.Wait()
		got, err := other(held.Context(ctx))
		switch deadlock := (*pglock.DeadlockError)(nil); {
		case err == nil:
			err = unlock(ctx, got)
		case errors.As(err, &deadlock):
			r.victims.Add(1)
			err = nil
		}
		if err = errors.Join(err, unlock(ctx, held)); err != nil {
			r.t.Error(err)
		}
	})
}

// The last call to wait is the victim, and all the others go on. The bubble fails if a cycle does not end.
func TestDeadlockEachCycleOfAProcessHasOneVictim(t *testing.T) {
	for range 120 {
		synctest.Test(t, func(t *testing.T) {
			r, n := newRing(t, 1+rand.IntN(3)), 1+rand.IntN(6)
			things := make([]thing, n)
			for i := range things {
				things[i] = r.lock(fmt.Sprint("k", i))
			}
			var have sync.WaitGroup
			have.Add(n)
			for i := range things {
				r.run(things[i], things[(i+1)%n], &have)
			}
			r.all.Wait()
			if victims := r.victims.Load(); victims != 1 {
				t.Errorf("%d calls wait for each other on %d Lockers, and %d fail", n, len(r.lockers), victims)
			}
		})
	}
}

// Calls that take their locks in one order, with the contexts of those that they hold, never wait for each other,
// however they are handed off, shared, released early, taken again, or given up.
func TestDeadlockCallsInOneOrderAreNoVictims(t *testing.T) {
	r, ctx := newRing(t, 2), t.Context()
	var waited atomic.Int64
	const callers, rounds, keys = 16, 150, 5
	for range callers {
		r.all.Go(func() {
			for range rounds {
				var held []*pglock.Lock
				inner := ctx
				for k := range keys {
					if rand.IntN(2) == 0 {
						continue
					}
					var opts []pglock.LockOption
					if rand.IntN(3) == 0 {
						opts = append(opts, pglock.Shared())
					}
					lock, err := r.locker().Lock(inner, pglock.NewKey(fmt.Sprint("k", k)), opts...)
					if errors.Is(err, pglock.ErrDeadlock) {
						t.Error(err)
					}
					if err != nil {
						break
					}
					waited.Add(1)
					held, inner = append(held, lock), lock.Context(inner)
				}
				if len(held) > 0 && rand.IntN(4) == 0 { // by another goroutine, while those behind may be waiting
					early := held[0]
					r.all.Go(func() { _ = early.Unlock(ctx) })
				}
				for _, lock := range held {
					_ = lock.Unlock(ctx)
				}
			}
		})
	}
	r.all.Wait()
	t.Logf("%d locks were granted", waited.Load())
}

// A reader that locks again waits behind a writer, which waits for the reader. Without the writer it does not wait.
func TestDeadlockAReaderBehindAWriterThatWaitsForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, key := newRing(t, 1), pglock.NewKey("k")
		l, other := r.lockers[0], pglock.NewKey("a")
		reader, busy := mustLock(t, l, key, pglock.Shared()), mustLock(t, l, other)
		both := txGo(func() error {
			lock, err := l.LockAll(reader.Context(t.Context()), []pglock.Key{other, key}, pglock.Shared())
			return errors.Join(err, lock.Unlock(t.Context()))
		})
		synctest.Wait() // for the other key alone
		txCheck(t, errors.Join(busy.Unlock(t.Context()), <-both))
		r.all.Go(func() { txCheck(t, l.Do(t.Context(), key, nothing)) })
		synctest.Wait()
		_, err := l.Lock(reader.Context(t.Context()), key, pglock.Shared())
		deadlock := (*pglock.DeadlockError)(nil)
		if !errors.As(err, &deadlock) || !errors.Is(err, pglock.ErrSelfDeadlock) {
			t.Errorf("a reader that waits for itself: %v", err)
		}
		txCheck(t, reader.Unlock(t.Context()))
		r.all.Wait()
	})
}

// A reader does not wait for another reader of its process that has the key and waits for the next one.
func TestDeadlockAReaderBesideAReaderThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, keys := newRing(t, 1).lockers[0], []pglock.Key{pglock.Int64Key(1), pglock.Int64Key(2)}
		held := mustLock(t, l, keys[1])
		all := txGo(func() error {
			lock, err := l.LockAll(t.Context(), keys, pglock.Shared())
			return errors.Join(err, lock.Unlock(t.Context()))
		})
		synctest.Wait() // it has the first key, and waits for the second
		txCheck(t, l.Do(held.Context(t.Context()), keys[0], nothing, pglock.Shared()))
		txCheck(t, errors.Join(held.Unlock(t.Context()), <-all))
	})
}

// A reader queues behind a writer that asks the server, where a reader of another Locker of the process has the key.
func TestDeadlockAReaderBehindAWriterThatAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, x, q := newRing(t, 2), pglock.NewKey("x"), pglock.NewKey("q")
		reader, held := mustLock(t, r.lockers[1], x, pglock.Shared()), mustLock(t, r.lockers[0], q)
		writer := txGo(func() error { return r.lockers[0].Do(t.Context(), x, nothing) })
		synctest.Wait()
		behind := txGo(func() error { return r.lockers[0].Do(held.Context(t.Context()), x, nothing, pglock.Shared()) })
		synctest.Wait()
		if err := r.lockers[1].Do(reader.Context(t.Context()), q, nothing); !errors.Is(err, pglock.ErrDeadlock) {
			t.Errorf("the call that completes the cycle: %v", err)
		}
		txCheck(t, errors.Join(reader.Unlock(t.Context()), <-writer, <-behind, held.Unlock(t.Context())))
	})
}

// The search for a cycle may come to a reader just when its wait behind a writer ends.
func TestDeadlockASearchMeetsWaitsThatEnd(t *testing.T) {
	l, key, other := newRing(t, 1).lockers[0], pglock.NewKey("k"), pglock.NewKey("a")
	held, reader, caller := mustLock(t, l, key), mustLock(t, l, other), mustLock(t, l, pglock.NewKey("b"))
	writer := txGo(func() error { return l.Do(t.Context(), key, nothing) })
	short := func(h *pglock.Lock, key pglock.Key, opts ...pglock.LockOption) {
		_, err := l.Lock(h.Context(t.Context()), key, append(opts, pglock.MaxWait(rand.N(200*time.Microsecond)))...)
		if !errors.Is(err, pglock.ErrNotAcquired) || errors.Is(err, pglock.ErrDeadlock) {
			t.Error(err)
		}
	}
	var all sync.WaitGroup
	all.Go(func() {
		for range 1000 {
			short(reader, key, pglock.Shared())
		}
	})
	for range 1000 {
		short(caller, other)
	}
	all.Wait()
	txCheck(t, errors.Join(held.Unlock(t.Context()), <-writer, reader.Unlock(t.Context()), caller.Unlock(t.Context())))
}

// A call that has failed holds what it held, and waits for nothing: who waits for it is in no cycle any more.
func TestDeadlockAVictimWaitsNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, a, b := newRing(t, 1).lockers[0], pglock.NewKey("a"), pglock.NewKey("b")
		first, second := mustLock(t, l, a), mustLock(t, l, b)
		ctx, cancel := context.WithCancel(first.Context(t.Context()))
		waiting := txGo(func() error { return l.Do(ctx, b, nothing) })
		synctest.Wait()
		err := l.Do(second.Context(t.Context()), a, nothing)
		text := fmt.Sprint(err)
		time.Sleep(time.Second)
		if !errors.Is(err, pglock.ErrDeadlock) || text != fmt.Sprint(err) {
			t.Errorf("the call that completes the cycle: %s, and later %v", text, err)
		}
		cancel()
		if err := <-waiting; !errors.Is(err, context.Canceled) {
			t.Errorf("the other call: %v", err)
		}
		again := txGo(func() error { return l.Do(first.Context(t.Context()), b, nothing) })
		synctest.Wait()
		txCheck(t, errors.Join(second.Unlock(t.Context()), <-again, first.Unlock(t.Context())))
	})
}

// A call for several keys keeps those that it has, so it may complete a cycle when it gets the next one.
func TestDeadlockALockAllCompletesACycleAtALaterKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, keys := newRing(t, 1), []pglock.Key{pglock.Int64Key(1), pglock.Int64Key(2)}
		l := r.lockers[0]
		first, second := mustLock(t, l, keys[0]), mustLock(t, l, keys[1])
		all := txGo(func() error { _, err := l.LockAll(t.Context(), keys); return err })
		synctest.Wait()
		behind := txGo(func() error { return l.Do(second.Context(t.Context()), keys[0], nothing) })
		synctest.Wait()
		txCheck(t, first.Unlock(t.Context()))
		if err := <-all; !errors.Is(err, pglock.ErrDeadlock) {
			t.Errorf("LockAll: %v", err)
		}
		txCheck(t, errors.Join(<-behind, second.Unlock(t.Context())))
	})
}

func nothing(context.Context, *pglock.Lock) error { return nil }

// A waiter of a semaphore can have any permit: it is in a cycle only if all holders are.
func TestDeadlockOfPermitsNeedsAllTheirHolders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, ctx := newRing(t, 2), t.Context()
		sem, err := semaphore.New(r.lockers[0], pglock.NewKey("s"), 2)
		txCheck(t, err)
		here, err := sem.Acquire(ctx)
		txCheck(t, err)
		there, err := sem.Acquire(ctx)
		txCheck(t, err)
		lock := mustLock(t, r.lockers[1], pglock.NewKey("k"))
		wait := func(under *semaphore.Permit) <-chan error {
			return txGo(func() error { return r.lockers[1].Do(under.Context(ctx), pglock.NewKey("k"), nothing) })
		}
		one := wait(here)
		synctest.Wait()
		under, cancel := context.WithCancel(lock.Context(ctx))
		again := txGo(func() error { _, err := sem.Acquire(under); return err })
		synctest.Wait() // the other permit may become free
		cancel()
		if err := <-again; !errors.Is(err, context.Canceled) || errors.Is(err, pglock.ErrDeadlock) {
			t.Errorf("a permit of two, one of which may become free: %v", err)
		}
		both := wait(there)
		synctest.Wait()
		_, err = sem.Acquire(lock.Context(ctx))
		if !errors.Is(err, pglock.ErrDeadlock) || errors.Is(err, pglock.ErrNotAcquired) {
			t.Errorf("a permit of two, whose holders wait for the call: %v", err)
		}
		txCheck(t, errors.Join(lock.Unlock(ctx), <-one, <-both, here.Release(ctx), there.Release(ctx)))
	})
}

// The last call of a cycle may be one in a transaction, on a pool of its own, whose server a Lock's session can see. It
// names who holds what, and for whom it waits.
func TestTxADeadlockThroughATransactionIsNamed(t *testing.T) {
	t.Parallel()
	db, a, b := testenv.Database(t), pglock.NewKey("a"), pglock.NewKey("b")
	one, two := openLocker(t, db), openLocker(t, db)
	first, second := mustLock(t, one, a), mustLock(t, two, b)
	waiting := txGo(func() error {
		return one.Do(first.Context(t.Context()), b, nothing)
	})
	db.WaitForWaiters(t, 1)
	tx := txBegin(t, db.Connect(t))
	err := pglock.LockTx(second.Context(t.Context()), tx, a)
	deadlock := (*pglock.DeadlockError)(nil)
	if !errors.As(err, &deadlock) || errors.Is(err, pglock.ErrSelfDeadlock) || len(deadlock.Cycle) != 2 {
		t.Fatalf("LockTx that completes a cycle: %v", err)
	}
	mine, theirs := deadlock.Cycle[0], deadlock.Cycle[1]
	if !mine.Holds.Equal(b) || !mine.Waits.Equal(a) || !theirs.Holds.Equal(a) || !theirs.Waits.Equal(b) {
		t.Errorf("the cycle is %+v", deadlock.Cycle)
	}
	for _, part := range []string{
		`lock "a" not acquired: deadlock: "a" is held for `, ` by a call that waits for `,
		` for "b", which this call holds for `,
	} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error %q does not contain %q", err, part)
		}
	}
	txWantUsable(t, tx)
	elsewhere := testenv.Database(t)
	txCheck(t, pglock.LockTx(second.Context(t.Context()), txBegin(t, elsewhere.Connect(t)), a)) // not that a
	txCheck(t, tx.Rollback(t.Context()))
	txCheck(t, second.Unlock(t.Context()))
	txCheck(t, <-waiting)
	txCheck(t, first.Unlock(t.Context()))
}

// A transaction that waits under a Lock's context takes part in cycles that other calls complete, whether the wait is bounded
// or not.
func TestTxADeadlockBehindATransactionIsFound(t *testing.T) {
	t.Parallel()
	db, a, b := testenv.Database(t), pglock.NewKey("a"), pglock.NewKey("b")
	one, two := openLocker(t, db), openLocker(t, db)
	for _, opts := range [][]pglock.TxOption{nil, {pglock.MaxWait(time.Minute)}} {
		first, second := mustLock(t, one, a), mustLock(t, two, b)
		tx := txBegin(t, db.Connect(t))
		txCheck(t, pglock.LockTx(first.Context(t.Context()), tx, pglock.NewKey("free")))
		waiting := txGo(func() error { return pglock.LockTx(first.Context(t.Context()), tx, b, opts...) })
		db.WaitForWaiters(t, 1)
		if err := two.Do(second.Context(t.Context()), a, nothing); !errors.Is(err, pglock.ErrDeadlock) {
			t.Errorf("Do behind a transaction that waits for it: %v", err)
		}
		txCheck(t, errors.Join(second.Unlock(t.Context()), <-waiting, tx.Rollback(t.Context()), first.Unlock(t.Context())))
	}
}
