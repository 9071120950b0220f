package exporter_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/rowlock"
)

// contendedRow has one process hold a lock in a row, and another wait for it, until the test ends.
func contendedRow(t *testing.T, db *testenv.DB) pglock.Key {
	t.Helper()
	pool, key := db.Pool(t), pglock.NewKey("invoice:42")
	locker := func() *pglock.Locker {
		l, err := rowlock.New(pool, pglock.WithLease(time.Hour))
		must.Succeed(t, err)
		t.Cleanup(func() { must.Succeed(t, l.Close(context.WithoutCancel(t.Context()))) })
		return l
	}
	held, err := locker().Lock(t.Context(), key)
	must.Succeed(t, err)
	t.Cleanup(func() { must.Succeed(t, held.Unlock(context.WithoutCancel(t.Context()))) })
	waiter := locker()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := waiter.Lock(ctx, key)
		ended <- err
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the waiter ended with %v", err)
		}
	})
	testenv.WaitUntil(t, "the wait for a lock in a row", func() bool {
		s, err := monitor.Take(t.Context(), pool)
		must.Succeed(t, err)
		i := slices.IndexFunc(s.Locks, func(l monitor.Lock) bool { return l.InRow })
		return i >= 0 && len(s.Locks[i].Waiters) == 1
	})
	return key
}

func TestLocksInRowsHaveSeries(t *testing.T) {
	db := testenv.Installed(t)
	key := contendedRow(t, db)
	series := scrape(t, serve(t, on(t, db)))
	of := fmt.Sprintf(`{database=%q}`, db.Name())
	byKey := fmt.Sprintf(`{database=%q,key="@%d"}`, db.Name(), key.Int64())
	want(t, series, map[string]string{"pglock_row_locks" + of: "1", "pglock_row_holders" + of: "1", "pglock_row_waiters" + of: "1",
		"pglock_row_key_holders" + byKey: "1", "pglock_row_key_waiters" + byKey: "1"})
	for _, name := range []string{"pglock_row_oldest_wait_seconds" + of, "pglock_row_oldest_holder_seconds" + of,
		"pglock_row_lease_left_seconds" + of, "pglock_row_key_oldest_wait_seconds" + byKey, "pglock_row_key_oldest_holder_seconds" + byKey} {
		if n, err := strconv.ParseFloat(series[name], 64); err != nil || n <= 0 || n > 3600 {
			t.Errorf("%s is %q", name, series[name])
		}
	}
}
