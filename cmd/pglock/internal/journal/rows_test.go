package journal_test

import (
	"context"
	"regexp"
	"strings"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/migrations"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/rowlock"
)

// rowWaiters awaits that so many processes wait for locks in rows.
func (s *fixture) rowWaiters(n int) {
	s.t.Helper()
	testenv.WaitUntil(s.t, "waiters for locks in rows", func() bool {
		var waiters int
		must.Succeed(s.t, s.pool.QueryRow(s.t.Context(), "SELECT count(*) FROM pglock.row_locks WHERE NOT granted").Scan(&waiters))
		return waiters == n
	})
}

func TestJournalFollowsALockInARow(t *testing.T) {
	s := newFixture(t)
	pool, key := s.pool, pglock.NewKey("invoice:42")
	must.Succeed(t, migrations.Up(t.Context(), pool))
	s.exec(s.connect("registry"), "SELECT pglock.register('invoice:42')")
	locker := func(name string) *pglock.Locker {
		l, err := rowlock.New(pool, pglock.WithApplicationName(name))
		must.Succeed(t, err)
		t.Cleanup(func() {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			_ = l.Close(ctx) // it ends what is held
		})
		return l
	}
	a, b := locker("a"), locker("b")
	held, err := a.Lock(t.Context(), key)
	must.Succeed(t, err)
	s.wantEvents()
	granted, lock := make(chan error, 1), (*pglock.Lock)(nil)
	go func() {
		var err error
		lock, err = b.Lock(t.Context(), key)
		granted <- err
	}()
	s.rowWaiters(1)
	_, events := s.wantEvents("wait-began invoice:42 b < a")
	if e := events[0]; e.LockType != "row" || e.Session.Holder == "" || e.Number != key.Int64() || e.WaitingSince == nil {
		t.Errorf("the wait: %+v", e)
	}
	text := regexp.MustCompile(`process \d+ on [^)]*`).ReplaceAllString(events[0].String(), "P")
	if text != "invoice:42 in a row: b (P) waits, blocked by a (P)" {
		t.Error(text)
	}
	must.Succeed(t, held.Unlock(t.Context()))
	must.Succeed(t, <-granted)
	_, events = s.wantEvents("passed-on invoice:42 b < a")
	if e := events[0]; e.WaitedSeconds == nil || !strings.Contains(e.String(), "passed from a (") {
		t.Errorf("the grant: %s, %+v", e, e)
	}
	must.Succeed(t, lock.Unlock(t.Context()))
	s.wantEvents("released invoice:42 b")
	ctx, cancel := context.WithCancel(t.Context())
	held, err = a.Lock(t.Context(), key)
	must.Succeed(t, err)
	s.wantEvents("acquired invoice:42 a")
	go func() {
		_, err := b.Lock(ctx, key)
		granted <- err
	}()
	s.rowWaiters(1)
	s.wantEvents("wait-began invoice:42 b < a")
	cancel()
	if err := <-granted; err == nil {
		t.Error("the wait was not cancelled")
	}
	s.rowWaiters(0)
	s.wantEvents("wait-ended invoice:42 b")
	must.Succeed(t, held.Unlock(t.Context()))
}
