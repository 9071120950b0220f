package pglock_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/pglock"
)

// journal writes down what an Observer is told.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) add(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, fmt.Sprintf(format, args...))
}

func (j *journal) observer() *pglock.Observer {
	return &pglock.Observer{
		WaitStarted: func(_ context.Context, e pglock.WaitStarted) { j.add("wait %v", e.Keys[0]) },
		WaitEnded:   func(_ context.Context, e pglock.WaitEnded) { j.add("waited %v %v", e.Keys[0], e.Err == nil) },
		Acquired:    func(_ context.Context, e pglock.Acquired) { j.add("acquired %v %v", e.Keys[0], e.How) },
		Released:    func(_ context.Context, e pglock.Released) { j.add("released %v", e.Keys[0]) },
		Lost:        func(_ context.Context, e pglock.Lost) { j.add("lost %v %s", e.Keys[0], string(e.Err.Reason)) },
	}
}

func TestTheObserverIsToldTheWayOfEveryLock(t *testing.T) {
	db := testenv.Database(t)
	var j journal
	l, other := openLocker(t, db, pglock.WithObserver(j.observer())), openLocker(t, db)
	key := pglock.NewKey("k")

	first := mustLock(t, l, key)
	done := make(chan struct{})
	go func() {
		defer close(done)
		mustUnlock(t, mustLock(t, l, key)) // handed on
	}()
	testenv.WaitUntil(t, "the second waits", func() bool { return l.Stats().Waiting == 1 })
	mustUnlock(t, first)
	<-done

	theirs := mustLock(t, other, key)
	if _, err := l.Lock(t.Context(), key, pglock.MaxWait(20*time.Millisecond)); err == nil {
		t.Error("a held lock was acquired")
	}
	done = make(chan struct{})
	go func() {
		defer close(done)
		mustUnlock(t, mustLock(t, l, key)) // queued in the server
	}()
	db.WaitForWaiters(t, 1)
	mustUnlock(t, theirs)
	<-done

	last := mustLock(t, l, key)
	terminate(t, db.Connect(t), onlySession(t, db, true))
	awaitDone(t, last.Done(), "the loss")
	testenv.WaitUntil(t, "the observer knows", func() bool {
		j.mu.Lock()
		defer j.mu.Unlock()
		return strings.HasPrefix(j.lines[len(j.lines)-1], "lost")
	})
	want := []string{
		"acquired k free", "wait k", "released k", "waited k true", "acquired k handoff", "released k",
		"wait k", "waited k false", "wait k", "waited k true", "acquired k queued", "released k",
		"acquired k free", "lost k session",
	}
	// The first's release and the second's grant are told by two goroutines.
	got := slices.Clone(j.lines)
	if i := slices.Index(got, "released k"); i > 2 && i < 5 {
		got = slices.Insert(slices.Delete(got, i, i+1), 2, "released k")
	}
	if !slices.Equal(got, want) {
		t.Errorf("the observer was told\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
