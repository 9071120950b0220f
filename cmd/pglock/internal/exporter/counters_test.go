package exporter_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/migrations"
	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/rowlock"
)

// A wait that begins and ends between two scrapes is counted, if a sample shows it.
func TestSamplesCountWaitsBetweenScrapes(t *testing.T) {
	db := testenv.Database(t)
	holder := db.Connect(t)
	_, err := holder.Exec(t.Context(), "SELECT pg_advisory_lock(7)")
	must.Succeed(t, err)
	o := on(t, db)
	take, taken := o.Take, atomic.Int64{}
	var shown atomic.Int64 // waits
	o.Take = func(ctx context.Context) (*monitor.Snapshot, error) {
		s, err := take(ctx)
		if err == nil {
			n := int64(0)
			for range s.Waits() {
				n++
			}
			shown.Store(n)
		}
		taken.Add(1)
		return s, err
	}
	o.Sample = 20 * time.Millisecond
	url := serve(t, o)
	scrape(t, url)
	waiter := db.Connect(t)
	ended := make(chan error, 1)
	go func() {
		_, err := waiter.Exec(context.WithoutCancel(t.Context()), "SET application_name = 'shop'; SELECT pg_advisory_lock(7)")
		ended <- err
	}()
	testenv.WaitUntil(t, "a sample that shows the wait", func() bool { return shown.Load() == 1 })
	before := taken.Load()
	testenv.WaitUntil(t, "another sample", func() bool { return taken.Load() > before+1 })
	_, err = holder.Exec(t.Context(), "SELECT pg_advisory_unlock(7)")
	must.Succeed(t, err)
	must.Succeed(t, <-ended)
	testenv.WaitUntil(t, "a sample that shows no wait", func() bool { return shown.Load() == 0 })
	labels := fmt.Sprintf(`{application="shop",database=%q,key="@7"}`, db.Name())
	want(t, scrape(t, url), map[string]string{"pglock_waits_total" + labels: "0", "pglock_wait_seconds_total" + labels: "0"})
	series := scrape(t, url)
	want(t, series, map[string]string{"pglock_waits_total" + labels: "1"})
	if seconds, err := strconv.ParseFloat(series["pglock_wait_seconds_total"+labels], 64); err != nil || seconds <= 0 {
		t.Errorf("it lasted %q seconds", series["pglock_wait_seconds_total"+labels])
	}
	if _, _, body := get(t, url+"/metrics"); !strings.Contains(body, "# HELP pglock_waits_total Waits for advisory locks "+
		"that snapshots showed since the exporter started. Snapshots are taken every 20ms") {
		t.Errorf("the help does not say how often:\n%s", body)
	}
}

// contendedRow has one process hold a lock in a row, and another wait for it, until the test ends.
func contendedRow(t *testing.T, db *testenv.DB) pglock.Key {
	t.Helper()
	pool, key := db.Pool(t), pglock.NewKey("invoice:42")
	must.Succeed(t, migrations.Up(t.Context(), pool))
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
	db := testenv.Database(t)
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
