package exporter_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/monitor"
)

// contendedRow is a lock in a row that one process holds and another waits for.
func contendedRow(now time.Time) monitor.Lock {
	held, began, expires := now.Add(-time.Minute), now.Add(-10*time.Second), now.Add(time.Hour)
	process := func(holder string) monitor.Session {
		return monitor.Session{Lease: &monitor.Lease{Holder: holder, Expires: &expires}}
	}
	return monitor.Lock{
		InRow: true, Key: "@42", Space: "bigint", Objsubid: 1, Number: 42, Database: "shop",
		Holders: []monitor.Holder{{Mode: "exclusive", SeenSince: &held, Session: process("aa")}},
		Waiters: []monitor.Waiter{{Mode: "exclusive", WaitingSince: &began, Session: process("bb"),
			BlockedBy: []monitor.Blocker{{Holder: "aa", Kind: "hard"}}}},
	}
}

func TestLocksInRowsHaveSeries(t *testing.T) {
	now := time.Now()
	s := &monitor.Snapshot{TakenAt: now, Database: "shop", Locks: []monitor.Lock{contendedRow(now)}}
	series := scrape(t, serve(t, func(context.Context) (*monitor.Snapshot, error) { return s, nil }))
	const of, byKey = `{database="shop"}`, `{database="shop",key="@42"}`
	want(t, series, map[string]string{"pglock_row_locks" + of: "1", "pglock_row_holders" + of: "1", "pglock_row_waiters" + of: "1",
		"pglock_row_key_holders" + byKey: "1", "pglock_row_key_waiters" + byKey: "1"})
	for _, name := range []string{"pglock_row_oldest_wait_seconds" + of, "pglock_row_oldest_holder_seconds" + of,
		"pglock_row_lease_left_seconds" + of, "pglock_row_key_oldest_wait_seconds" + byKey, "pglock_row_key_oldest_holder_seconds" + byKey} {
		if n, err := strconv.ParseFloat(series[name], 64); err != nil || n <= 0 || n > 3600 {
			t.Errorf("%s is %q", name, series[name])
		}
	}
}

func TestWhereNothingWaitsTheActionIsNone(t *testing.T) {
	url := serve(t, func(context.Context) (*monitor.Snapshot, error) { return &monitor.Snapshot{TakenAt: time.Now()}, nil })
	want(t, scrape(t, url), map[string]string{`pglock_action_frees{kind="none"}`: "0", `pglock_action_frees_at_most{kind="none"}`: "0"})
}
