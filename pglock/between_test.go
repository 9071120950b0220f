package pglock_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/hooks"
	"github.com/pglock-toolkit/pglock/internal/pgserver"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
)

// twoProcesses returns Lockers on db that know of each other what the server shows.
func twoProcesses(t *testing.T, db *testenv.DB) (one, two *pglock.Locker) {
	one, two = openLocker(t, db), openLocker(t, db)
	hooks.Process(one)
	hooks.Process(two)
	return one, two
}

// waitForPublished waits until a process has published a wait. A wait that begins after that is younger, for every process: the
// clocks of two differ by as long as an answer takes.
func waitForPublished(t *testing.T, db *testenv.DB) {
	conn := db.Connect(t)
	testenv.WaitUntil(t, "a wait is published", func() bool {
		return must.One[int](t, conn, "select count(*) from pg_stat_activity where datname = current_database() and query like '/* pglock waits %'") > 0
	})
}

// The call that closed the cycle gives up, and holds what it held. The other one is granted the lock.
func TestDeadlockBetweenProcessesHasOneVictim(t *testing.T) {
	t.Parallel()
	db, a, b := testenv.Database(t), pglock.NewKey("a"), pglock.NewKey("b")
	one, two := twoProcesses(t, db)
	first, second := mustLock(t, one, a), mustLock(t, two, b)
	waiting := txGo(func() error { return one.Do(first.Context(t.Context()), b, nothing) })
	waitForPublished(t, db)
	began := time.Now()
	err := two.Do(second.Context(t.Context()), a, nothing)
	t.Logf("after %v: %v", time.Since(began), err)
	deadlock := (*pglock.DeadlockError)(nil)
	if !errors.As(err, &deadlock) || len(deadlock.Cycle) != 2 {
		t.Fatalf("the call that closed the cycle: %v", err)
	}
	mine, theirs := deadlock.Cycle[0], deadlock.Cycle[1]
	if mine.Holds.Name() != "b" || mine.Waits.Name() != "a" || !theirs.Holds.Equal(a) || !theirs.Waits.Equal(b) ||
		mine.By != "" || !strings.Contains(theirs.By, ", process ") || !strings.Contains(err.Error(), " this call holds for ") {
		t.Errorf("the cycle is %+v: %v", deadlock.Cycle, err)
	}
	txCheck(t, errors.Join(second.Err(), second.Unlock(t.Context()), <-waiting, first.Unlock(t.Context())))
}

// A process has room to publish a dozen waits at a time. Those of a cycle are found, and stay, among a hundred others of each.
func TestDeadlockBetweenProcessesBesideManyWaits(t *testing.T) {
	t.Parallel()
	db, a, b, busy := testenv.Database(t), pglock.NewKey("a"), pglock.NewKey("b"), pglock.NewKey("busy")
	one, two := twoProcesses(t, db)
	ctx, end := context.WithCancel(t.Context())
	var others sync.WaitGroup
	for _, l := range []*pglock.Locker{one, two} {
		for i := range 100 {
			held := mustLock(t, l, pglock.Keyf("%p %d", l, i))
			others.Go(func() {
				_ = l.Do(held.Context(ctx), busy, func(context.Context, *pglock.Lock) error { <-ctx.Done(); return nil })
				txCheck(t, held.Unlock(t.Context()))
			})
		}
	}
	call := func(l *pglock.Locker, mine *pglock.Lock, other pglock.Key) error {
		err := l.Do(mine.Context(t.Context()), other, nothing, pglock.MaxWait(time.Minute))
		return errors.Join(err, mine.Unlock(t.Context()))
	}
	first, second := mustLock(t, one, a), mustLock(t, two, b)
	waiting := txGo(func() error { return call(one, first, b) })
	err := call(two, second, a)
	if other := <-waiting; (err == nil) == (other == nil) || !errors.Is(errors.Join(err, other), pglock.ErrDeadlock) {
		t.Errorf("two calls that wait for each other: %v, and %v", err, other)
	}
	end()
	others.Wait()
}

// A writer of another process waits between two shared locks of one call, which needs no second call that is published.
func TestDeadlockBehindAWriterOfAnotherProcess(t *testing.T) {
	t.Parallel()
	db, key := testenv.Database(t), pglock.NewKey("k")
	one, two := twoProcesses(t, db)
	lock := mustLock(t, one, key, pglock.Shared())
	waiting := txGo(func() error { return two.Do(t.Context(), key, nothing) })
	db.WaitForWaiters(t, 1)
	err := one.Do(lock.Context(t.Context()), key, nothing, pglock.Shared())
	if !errors.Is(err, pglock.ErrSelfDeadlock) {
		t.Errorf("a shared lock under a shared lock, behind a writer of another process: %v", err)
	}
	txCheck(t, errors.Join(lock.Unlock(t.Context()), <-waiting))
}

// A transaction that waits under a Lock's context, and a call that waits in a transaction. A victim whose wait is bounded
// goes on with its transaction.
func TestTxADeadlockBetweenProcessesThroughTransactions(t *testing.T) {
	t.Parallel()
	bounded := []pglock.TxOption{pglock.MaxWait(time.Minute)}
	for name, opts := range map[string][]pglock.TxOption{"tx": nil, "bounded tx": bounded, "call": nil} {
		last := strings.TrimPrefix(name, "bounded ") // of the waits
		db, a, b := testenv.Database(t), pglock.NewKey("a"), pglock.NewKey("b")
		one, two := twoProcesses(t, db)
		lock := mustLock(t, one, a)
		txOne, txTwo := txBegin(t, db.Connect(t)), txBegin(t, db.Connect(t))
		txCheck(t, pglock.LockTx(t.Context(), txTwo, b))
		tied, err := pglock.TxContext(t.Context(), txTwo)
		txCheck(t, err)
		waits := map[string]func() error{
			"tx":   func() error { return pglock.LockTx(lock.Context(t.Context()), txOne, b, opts...) },
			"call": func() error { return two.Do(tied, a, nothing) },
		}
		ends := map[string]func() error{
			"tx":   func() error { return errors.Join(txOne.Rollback(t.Context()), lock.Unlock(t.Context())) },
			"call": func() error { return txTwo.Rollback(t.Context()) },
		}
		other := map[string]string{"tx": "call", "call": "tx"}[last]
		waiting := txGo(waits[other])
		waitForPublished(t, db)
		if err := waits[last](); !errors.Is(err, pglock.ErrDeadlock) {
			t.Errorf("the %s is the last to wait: %v", name, err)
		}
		if last == "tx" {
			if _, err := txOne.Exec(t.Context(), "SELECT 1"); (err == nil) != (opts != nil) {
				t.Errorf("a statement of the %s afterwards: %v", name, err)
			}
		}
		txCheck(t, errors.Join(ends[last](), <-waiting, ends[other]()))
	}
}

// Two calls, each of which holds a lock in one transaction and waits in another.
func TestTxADeadlockBetweenProcessesOfTwoTransactionsEach(t *testing.T) {
	t.Parallel()
	db, a, b := testenv.Database(t), pglock.NewKey("a"), pglock.NewKey("b")
	one, two := twoProcesses(t, db)
	call := func(l *pglock.Locker, outer, mine, other pglock.Key, ready chan<- struct{}, begin <-chan struct{}) error {
		return l.Do(t.Context(), outer, func(ctx context.Context, _ *pglock.Lock) error {
			return pglock.BeginFunc(ctx, db.Connect(t), mine, func(ctx context.Context, _ pgx.Tx) error {
				close(ready)
				<-begin
				return pglock.BeginFunc(ctx, db.Connect(t), other, func(context.Context, pgx.Tx) error { return nil }, pglock.MaxWait(10*time.Second))
			})
		})
	}
	haveA, haveB := make(chan struct{}), make(chan struct{})
	first := txGo(func() error { return call(one, pglock.NewKey("1"), a, b, haveA, haveB) })
	second := call(two, pglock.NewKey("2"), b, a, haveB, haveA)
	if err := <-first; errors.Is(err, pglock.ErrDeadlock) == errors.Is(second, pglock.ErrDeadlock) || err != nil && second != nil {
		t.Errorf("two calls that wait for each other: %v, and %v", err, second)
	}
}

// A call of a Locker inside the function of BeginFunc counts as its transaction waiting.
func TestTxADeadlockBetweenProcessesThroughBeginFunc(t *testing.T) {
	t.Parallel()
	db, a, b := testenv.Database(t), pglock.NewKey("a"), pglock.NewKey("b")
	one, two := twoProcesses(t, db)
	lock, tx := mustLock(t, one, a), txBegin(t, db.Connect(t))
	var waiting <-chan error
	err := pglock.BeginFunc(t.Context(), db.Pool(t), b, func(ctx context.Context, _ pgx.Tx) error {
		waiting = txGo(func() error { return pglock.LockTx(lock.Context(t.Context()), tx, b) })
		waitForPublished(t, db)
		return two.Do(ctx, a, nothing)
	})
	if !errors.Is(err, pglock.ErrDeadlock) {
		t.Errorf("a call in BeginFunc's function: %v", err)
	}
	txCheck(t, errors.Join(<-waiting, tx.Rollback(t.Context()), lock.Unlock(t.Context())))
}

// A guarded transaction that waits for a row counts as the holder waiting.
func TestDeadlockBetweenProcessesThroughAGuardedTransaction(t *testing.T) {
	t.Parallel()
	db, a := testenv.Database(t), pglock.NewKey("a")
	one, two := twoProcesses(t, db)
	_, err := db.Connect(t).Exec(t.Context(), "create table accounts (id int primary key, n int); insert into accounts values (1, 0)")
	txCheck(t, err)
	lock := mustLock(t, one, a)
	guarded, other := txBegin(t, db.Connect(t)), txBegin(t, db.Connect(t))
	update := func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), "update accounts set n = n + 1")
		return err
	}
	txCheck(t, errors.Join(lock.GuardTx(t.Context(), guarded), update(other)))
	waiting := txGo(func() error { return update(guarded) })
	tied, err := pglock.TxContext(t.Context(), other)
	txCheck(t, err)
	if err := two.Do(tied, a, nothing); !errors.Is(err, pglock.ErrDeadlock) {
		t.Errorf("a call in a transaction for whose row the holder's waits: %v", err)
	}
	txCheck(t, errors.Join(other.Rollback(t.Context()), <-waiting, guarded.Rollback(t.Context()), lock.Unlock(t.Context())))
}

// What a session publishes is believed only if it is of the role that holds the lock. That role can end the holder anyway. What a
// process has published that is frozen is not believed.
func TestDeadlockAStrangersLiesMakeNoVictim(t *testing.T) {
	t.Parallel()
	db, a, b := testenv.Database(t), pglock.NewKey("a"), pglock.NewKey("b")
	one, two := twoProcesses(t, db)
	for _, c := range []struct {
		connString string
		frozen     bool
		want       error
	}{
		{db.Role(t, "stranger"), false, pglock.ErrNotAcquired},
		{db.ConnString(), false, pglock.ErrDeadlock},
		{db.ConnString(), true, pglock.ErrNotAcquired},
	} {
		first, second := mustLock(t, one, a), mustLock(t, two, b)
		holders, err := one.Holders(t.Context(), a)
		txCheck(t, err)
		liar := txConnect(t, c.connString, func(*pgx.ConnConfig) {})
		done, answers := make(chan error), 0
		go func() { done <- two.Do(second.Context(t.Context()), a, nothing, pglock.MaxWait(3*time.Second)) }()
		for waits := true; waits; {
			_, err := liar.Exec(t.Context(), fmt.Sprintf("/* pglock waits 1@1@%d -1:%016x +1:%016x/%d; */ select",
				answers, uint64(b.Int64()), uint64(a.Int64()), holders[0].PID))
			txCheck(t, err)
			select {
			case err := <-done:
				if waits = false; !errors.Is(err, c.want) {
					t.Errorf("the error is %v, want %v", err, c.want)
				}
			case <-time.After(200 * time.Millisecond):
				if !c.frozen {
					answers++
				}
			}
		}
		txCheck(t, errors.Join(liar.Close(t.Context()), second.Unlock(t.Context()), first.Unlock(t.Context())))
	}
}

// The texts of hundreds of waits that are published stand before one statement, which the server counts as one.
func TestDeadlockWaitsThatArePublishedAreOneStatement(t *testing.T) {
	before := hooks.PublishAfter
	t.Cleanup(func() { hooks.PublishAfter = before }) // after the Lockers have been closed, which read it
	hooks.PublishAfter = 10 * time.Millisecond
	server := testenv.NewServer(t, nil)
	admin, err := pgx.Connect(t.Context(), server.ConnString("postgres"))
	txCheck(t, err)
	one := func(sql string, args ...any) (n int) {
		txCheck(t, admin.QueryRow(t.Context(), sql, args...).Scan(&n))
		return n
	}
	if one("select count(*) from pg_available_extensions where name = 'pg_stat_statements'") == 0 {
		t.Skip("this PostgreSQL has no pg_stat_statements")
	}
	_, err = admin.Exec(t.Context(), "alter system set shared_preload_libraries = pg_stat_statements")
	txCheck(t, errors.Join(err, admin.Close(t.Context()), server.Restart(t.Context(), pgserver.Fast)))
	admin, err = pgx.Connect(t.Context(), server.ConnString("postgres"))
	txCheck(t, err)
	defer admin.Close(t.Context())
	_, err = admin.Exec(t.Context(), "create extension pg_stat_statements")
	txCheck(t, err)
	const waits, places = 300, "from pg_stat_statements where dbid = (select oid from pg_database where datname = $1)"
	db := testenv.On(t, server)
	quiet := pglock.WithLogger(slog.New(slog.DiscardHandler)) // else a line in the log asks for the holder
	here, there := openLocker(t, db, quiet), openLocker(t, db, quiet)
	wait := func(published bool) {
		key := pglock.NewKey("k")
		lock := mustLock(t, there, key)
		var calls sync.WaitGroup
		for i := range waits {
			ctx, held := t.Context(), mustLock(t, here, pglock.Keyf("held %d", i))
			if published {
				ctx = held.Context(ctx)
			}
			calls.Go(func() {
				if err := errors.Join(here.Do(ctx, key, nothing), held.Unlock(t.Context())); err != nil {
					t.Error(err)
				}
			})
		}
		testenv.WaitUntil(t, "all calls wait", func() bool { return here.Stats().Waiting == waits })
		db.WaitForWaiters(t, 1) // so that its session has all that it needs
		testenv.WaitUntil(t, "all waits have been published", func() bool {
			const looks = waits / 10 // each has room for more
			return !published || one("select coalesce(sum(calls), 0) "+places+" and query like '%name: LookAtWaits %'", db.Name()) > looks
		})
		mustUnlock(t, lock)
		calls.Wait()
	}
	statements := func() []string {
		rows, err := admin.Query(t.Context(), "select query "+places, db.Name())
		txCheck(t, err)
		all, err := pgx.CollectRows(rows, pgx.RowTo[string])
		txCheck(t, err)
		return all
	}
	wait(false)
	others := statements()
	wait(true)
	ofSessions := regexp.MustCompile("name: (Heartbeat|WaitStands) ") // which any session sends, with time and when it waits
	added := slices.DeleteFunc(statements(), func(s string) bool {
		return slices.Contains(others, s) || ofSessions.MatchString(s)
	})
	if len(added) > 2 {
		t.Errorf("the waits have added %d statements to pg_stat_statements: %.200q", len(added), added)
	}
}
