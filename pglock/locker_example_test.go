package pglock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/locktest"
)

// exampleLocker opens a Locker on the examples' database.
func exampleLocker(opts ...pglock.Option) *pglock.Locker {
	locker, err := pglock.Open(context.Background(), testenv.ForExamples().ConnString(), opts...)
	if err != nil {
		log.Fatal(err)
	}
	return locker
}

func ExampleNew() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, testenv.ForExamples().ConnString())
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()

	locker, err := pglock.New(pool) // dials its own sessions, on top of the pool's
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close(ctx)
	fmt.Println(locker.Ping(ctx))
	// Output: <nil>
}

func ExampleNewWithConfig() {
	// The pool goes through a transaction pooler; the Locker needs the server's own address.
	direct, err := pgxpool.ParseConfig(testenv.ForExamples().ConnString())
	if err != nil {
		log.Fatal(err)
	}
	locker, err := pglock.NewWithConfig(direct, pglock.WithApplicationName("billing locks"))
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close(context.Background())
	fmt.Println(locker.Ping(context.Background()))
	// Output: <nil>
}

func ExampleLocker_Lock() {
	ctx := context.Background()
	locker := exampleLocker()
	defer locker.Close(ctx)

	lock, err := locker.Lock(ctx, pglock.NewKey("nightly-report"), pglock.MaxWait(5*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Unlock(ctx) // works even if ctx has ended

	work := lock.Context(ctx) // ends when the lock is lost
	fmt.Println(work.Err(), lock.Err())
	// Output: <nil> <nil>
}

func ExampleLocker_TryLock() {
	ctx := context.Background()
	locker := exampleLocker()
	defer locker.Close(ctx)
	key := pglock.NewKey("nightly-report")

	lock, err := locker.TryLock(ctx, key)
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Unlock(ctx)

	_, err = locker.TryLock(ctx, key) // not reentrant: as if another process asked
	fmt.Println(errors.Is(err, pglock.ErrNotAcquired))
	fmt.Println(err)
	// Output:
	// true
	// pglock: lock "nightly-report" not acquired: already held
}

func ExampleLocker_LockAll() {
	ctx := context.Background()
	locker := exampleLocker()
	defer locker.Close(ctx)

	// A call with the same accounts in another order does not deadlock with this one.
	both, err := locker.LockAll(ctx, []pglock.Key{pglock.NewKey("account:7"), pglock.NewKey("account:3")})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(both.Keys()), both.Unlock(ctx))
	// Output: 2 <nil>
}

func ExampleLocker_Do() {
	ctx := context.Background()
	locker := exampleLocker()
	defer locker.Close(ctx)

	err := locker.Do(ctx, pglock.NewKey("nightly-report"), func(ctx context.Context, lock *pglock.Lock) error {
		fmt.Println("holding", lock.Key())
		return ctx.Err() // ctx ends with the lock
	})
	fmt.Println(err)
	// Output:
	// holding nightly-report
	// <nil>
}

func ExampleLocker_Holders() {
	ctx := context.Background()
	locker := exampleLocker(pglock.WithApplicationName("billing"))
	defer locker.Close(ctx)
	key := pglock.NewKey("nightly-report")

	lock, err := locker.Lock(ctx, key)
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Unlock(ctx)
	holders, err := locker.Holders(ctx, key)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(holders), strings.HasPrefix(holders[0].Application, "billing (pglock "))
	// Output: 1 true
}

func ExampleLock_Context() {
	ctx := context.Background()
	server := locktest.NewServer()
	locker, err := server.Locker()
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close(ctx)
	key := pglock.NewKey("nightly-report")
	lock, err := locker.Lock(ctx, key)
	if err != nil {
		log.Fatal(err)
	}
	work := lock.Context(ctx)
	server.Lose(key) // as when a database administrator ends the session

	<-work.Done()
	fmt.Println(errors.Is(context.Cause(work), pglock.ErrLost))
	fmt.Println(lock.Unlock(ctx))
	// Output:
	// true
	// pglock: lock "nightly-report" lost: its server session ended: the test took it away
}

func ExampleLock_Verify() {
	ctx := context.Background()
	locker := exampleLocker()
	defer locker.Close(ctx)
	lock, err := locker.Lock(ctx, pglock.NewKey("a"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(lock.Verify(ctx))
	if err := lock.Unlock(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println(errors.Is(lock.Verify(ctx), pglock.ErrUnlocked))
	// Output:
	// <nil>
	// true
}

func ExampleLock_Fence() {
	ctx := context.Background()
	locker, err := locktest.NewMemory() // on PostgreSQL it needs the schema: pglock migrate up
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close(ctx)
	var last int64
	for range 3 {
		err := locker.Do(ctx, pglock.NewKey("a"), func(ctx context.Context, lock *pglock.Lock) error {
			fence, err := lock.Fence(ctx) // sent along to the resource that the lock protects
			fmt.Println(fence > last)
			last = fence
			return err
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// true
	// true
	// true
}

func ExampleLock_Extend() {
	ctx := context.Background()
	locker := exampleLocker()
	defer locker.Close(ctx)
	lock, err := locker.Lock(ctx, pglock.NewKey("a"), pglock.MaxHold(time.Minute))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(lock.Extend(time.Hour)) // from now
	fmt.Println(lock.Unlock(ctx))
	// Output:
	// <nil>
	// <nil>
}

// Work in steps asks before each one whether the lock is still held.
func ExampleLock_Err() {
	ctx := context.Background()
	locker := exampleLocker()
	defer locker.Close(ctx)
	lock, err := locker.Lock(ctx, pglock.NewKey("a"), pglock.MaxHold(time.Hour))
	if err != nil {
		log.Fatal(err)
	}
	for step := 1; step <= 3; step++ {
		if err := lock.Err(); err != nil {
			fmt.Println(errors.Is(err, pglock.ErrLost), err)
			break
		}
		fmt.Println("step", step)
		if err := lock.Extend(time.Millisecond); err != nil {
			log.Fatal(err)
		}
		<-lock.Done() // a step that takes longer than was allowed
	}
	// Output:
	// step 1
	// true pglock: lock "a" lost: it was held for as long as MaxHold allows
}

func ExampleMaxHold() {
	ctx := context.Background()
	locker := exampleLocker()
	defer locker.Close(ctx)
	err := locker.Do(ctx, pglock.NewKey("a"), func(ctx context.Context, lock *pglock.Lock) error {
		<-ctx.Done() // work that hangs
		return nil
	}, pglock.MaxHold(10*time.Millisecond))
	lost := (*pglock.LostError)(nil)
	fmt.Println(errors.As(err, &lost) && lost.Reason == pglock.LostMaxHold)
	// Output: true
}

func ExampleLock_GuardTx() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, testenv.ForExamples().ConnString())
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	locker := exampleLocker()
	defer locker.Close(ctx)

	err = locker.Do(ctx, pglock.NewKey("invoice:42"), func(ctx context.Context, lock *pglock.Lock) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if err := lock.GuardTx(ctx, tx); err != nil { // first of all
				return err
			}
			_, err := tx.Exec(ctx, "select 1") // the write, which cannot be stale
			return err
		})
	})
	fmt.Println(err)
	// Output: <nil>
}
