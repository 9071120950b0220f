package pglock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/keylabel"
	"github.com/pglock-toolkit/pglock/pglock/locktest"
)

// failures is an Observer of calls that got nothing.
func (j *journal) failures(_ context.Context, e pglock.Event) {
	switch e.Type {
	case pglock.EventFailed:
		j.add("failed: %s, try %v", keylabel.Outcome(e.Err), e.Try)
	case pglock.EventWaitEnded, pglock.EventReleased:
		j.add("%s", e.Type)
	}
}

func TestObserverIsToldOfCallsThatGotNothing(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	var j journal
	l := openLocker(t, db, pglock.WithObserver(j.failures), pglock.WithMaxHeld(1))
	key := pglock.NewKey("k")
	holder := mustLock(t, openLocker(t, db), key)
	own := mustLock(t, l, pglock.NewKey("own"))
	if _, err := l.TryLock(t.Context(), pglock.NewKey("another")); !errors.Is(err, pglock.ErrTooManyLocks) {
		t.Errorf("the error is %v", err)
	}
	_, _ = l.Lock(own.Context(t.Context()), pglock.NewKey("own"))
	mustUnlock(t, own)
	_, _ = l.TryLock(t.Context(), key)
	_, _ = l.Lock(t.Context(), key, pglock.MaxWait(time.Millisecond))
	ctx, cancel := context.WithCancel(t.Context())
	waited := make(chan struct{})
	go func() { defer close(waited); _, _ = l.Lock(ctx, key) }()
	db.WaitForWaiters(t, 1)
	cancel()
	<-waited
	mustUnlock(t, holder)
	refused := db.Config(t)
	refused.ConnConfig.Host, refused.ConnConfig.Port = "127.0.0.1", 1 // where nothing listens
	unreachable, _ := openConfig(t, refused)
	if _, err := unreachable.Lock(t.Context(), key); keylabel.Outcome(err) != "unavailable" {
		t.Errorf("the outcome of %v is %s", err, keylabel.Outcome(err))
	}
	want := []string{
		"failed: too_many, try true", "failed: deadlock, try false", "released",
		"failed: not_acquired, try true",
		"wait ended", "failed: not_acquired, try false",
		"wait ended", "failed: canceled, try false",
	}
	if !slices.Equal(j.lines, want) {
		t.Errorf("the events are\n%s\nwant\n%s", strings.Join(j.lines, "\n"), strings.Join(want, "\n"))
	}
}

func TestObserverTokensAreThoseOfTheLock(t *testing.T) {
	var tokens []string
	l, err := locktest.NewMemory(pglock.WithObserver(func(_ context.Context, e pglock.Event) {
		tokens = append(tokens, e.Token)
	}))
	must.Succeed(t, err)
	lock := mustLock(t, l, pglock.NewKey("k"))
	other := mustLock(t, l, pglock.NewKey("other"))
	mustUnlock(t, lock)
	mustUnlock(t, other)
	if want := []string{lock.Token(), other.Token(), lock.Token(), other.Token()}; !slices.Equal(tokens, want) {
		t.Errorf("the tokens are %q, want %q", tokens, want)
	}
}

func TestObserverIsToldOfLocksOfTransactions(t *testing.T) {
	t.Parallel()
	db, key := testenv.Database(t), pglock.NewKey("invoice:42")
	txHold(t, db, key)
	var got []string
	o := pglock.WithObserver(func(_ context.Context, e pglock.Event) {
		got = append(got, fmt.Sprintf("%v shared %v try %v took %v: %s", e.Keys, e.Shared, e.Try, e.Took > 0, keylabel.Outcome(e.Err)))
	})
	tx, free := txBegin(t, db.Connect(t)), pglock.NewKey("free")
	txCheck(t, pglock.LockTx(t.Context(), tx, free, o, pglock.Shared()))
	//pglock:allow the observer is what is tested
	_ = pglock.TryLockTx(t.Context(), tx, key, o)
	//pglock:allow as above
	_ = pglock.LockAllTx(t.Context(), tx, []pglock.Key{free, key}, o, pglock.MaxWait(time.Millisecond))
	batch := &pgx.Batch{}
	pglock.QueueLockTx(batch, free, o)
	pglock.QueueLockTx(batch, key, o, pglock.MaxWait(0))
	_ = tx.SendBatch(t.Context(), batch).Close()
	want := []string{
		"[free] shared true try false took true: acquired", "[invoice:42] shared false try true took true: not_acquired",
		"[free invoice:42] shared false try false took true: not_acquired",
		"[free] shared false try false took false: acquired", "[invoice:42] shared false try true took false: not_acquired",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the events are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
