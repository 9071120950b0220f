package pglock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/pglock"
)

// journal records the events of an Observer.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) add(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, fmt.Sprintf(format, args...))
}

func (j *journal) observe(_ context.Context, e pglock.Event) {
	switch e.Type {
	case pglock.EventWaitEnded:
		j.add("waited %v %v", e.Keys[0], e.Err == nil)
	case pglock.EventAcquired:
		j.add("acquired %v", e.Keys[0])
	case pglock.EventLost:
		j.add("lost %v %s", e.Keys[0], e.Err.(*pglock.LostError).Reason)
	case pglock.EventFailed:
	default:
		j.add("%s %v", e.Type, e.Keys[0])
	}
}

func TestObserverIsToldTheWayOfEveryLock(t *testing.T) {
	db := testenv.Database(t)
	var j journal
	l, other := openLocker(t, db, pglock.WithObserver(j.observe)), openLocker(t, db)
	key := pglock.NewKey("k")

	first := mustLock(t, l, key)
	done := make(chan struct{})
	go func() {
		defer close(done)
		mustUnlock(t, mustLock(t, l, key)) // handed off
	}()
	testenv.WaitUntil(t, "the second waits", func() bool {
		j.mu.Lock()
		defer j.mu.Unlock()
		return slices.Contains(j.lines, "wait started k")
	})
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
	testenv.WaitUntil(t, "the observer has been notified", func() bool {
		j.mu.Lock()
		defer j.mu.Unlock()
		return strings.HasPrefix(j.lines[len(j.lines)-1], "lost")
	})
	want := []string{
		"acquired k", "wait started k", "released k", "waited k true", "acquired k", "released k",
		"wait started k", "waited k false", "wait started k", "waited k true", "acquired k", "released k",
		"acquired k", "lost k session",
	}
	// The first's release and the second's grant are reported by two goroutines.
	got := slices.Clone(j.lines)
	if i := slices.Index(got, "released k"); i > 2 && i < 5 {
		got = slices.Insert(slices.Delete(got, i, i+1), 2, "released k")
	}
	if !slices.Equal(got, want) {
		t.Errorf("the events are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// balance counts the events of each lock.
type balance struct {
	mu       sync.Mutex
	open     map[string]int // key → locks acquired and not yet released or lost
	acquired int
}

func (b *balance) observe(_ context.Context, e pglock.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := e.Keys[0].String()
	switch e.Type {
	case pglock.EventAcquired:
		b.acquired++
		b.open[key]++
	case pglock.EventReleased, pglock.EventLost:
		b.open[key]--
	}
}

func (b *balance) opened() (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, open := range b.open {
		n += open
	}
	return n
}

// Whatever happens to the sessions, exactly one of Released and Lost is called for each lock that was acquired.
func TestObserverIsToldOneEndOfEveryLock(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	admin := db.Connect(t)
	b := balance{open: map[string]int{}}
	l, _ := openCounted(t, db, pglock.WithObserver(b.observe))
	stop := keepBusy(t, 12, []*pglock.Locker{l}, func(ctx context.Context, l *pglock.Locker) {
		lock, _, err := acquireAnyWay(ctx, l, faultKeys(8))
		if err == nil {
			err = lock.Unlock(context.Background())
		}
		if !plausible(err, pglock.ErrLost) && !errors.Is(err, pglock.ErrNotAcquired) {
			t.Error(err)
		}
	})
	acquired := func() int { b.mu.Lock(); defer b.mu.Unlock(); return b.acquired }
	for range 15 {
		enough := acquired() + 20
		testenv.WaitUntil(t, "locks are acquired", func() bool { return acquired() >= enough })
		numbers(t, admin, terminateAny, faultsApplications)
	}
	stop()
	wantQuiet(t, db, l)
	testenv.WaitUntil(t, "grants and losses have been reported, which happens in the background", func() bool {
		return b.opened() == 0 && int64(acquired()) == l.Stats().Acquired
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, n := range b.open {
		if n != 0 {
			t.Errorf("the end of %d locks of %s was not reported to the Observer", n, key)
		}
	}
}

// terminateAny ends one of the Lockers' sessions.
const terminateAny = `select pid::int8 from (select pid, pg_terminate_backend(pid) from
	(select pid from pg_stat_activity where datname = current_database() and application_name like $1
		order by random() limit 1) as victim) as hit`
