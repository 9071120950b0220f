package exporter

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/monitor"
)

var start = time.Date(2026, 7, 5, 12, 0, 0, 0, time.UTC)

// waitedFor returns a snapshot in which each key has the given number of waiters, and one holder.
func waitedFor(after time.Duration, keys map[string]int) *monitor.Snapshot {
	s := &monitor.Snapshot{TakenAt: start.Add(after), Database: "shop"}
	for key, n := range keys {
		number, err := strconv.ParseInt(key, 36, 64)
		if err != nil {
			panic(err)
		}
		lock := monitor.Lock{Key: key, Objsubid: 1, Number: number, Database: "shop", Holders: make([]monitor.Holder, 1),
			Waiters: make([]monitor.Waiter, n)}
		s.Locks = append(s.Locks, lock)
	}
	return s
}

func wantShown(t *testing.T, what string, shown map[keyLabel]contention, want map[string]int) {
	t.Helper()
	got := map[string]int{}
	for _, c := range shown {
		got[c.name] = c.waiters
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: waiters by key are %v, want %v", what, got, want)
	}
}

func TestSeriesOfKeysAreBounded(t *testing.T) {
	k := newKeyLabels(2)
	wantShown(t, "the most wanted come first", measure(k, waitedFor(0, map[string]int{"a": 1, "b": 3, "c": 2})),
		map[string]int{"b": 3, "c": 2, otherKeys: 1})
	wantShown(t, "the first stay", measure(k, waitedFor(time.Minute, map[string]int{"a": 9, "b": 0})),
		map[string]int{"b": 0, "@12": 0, otherKeys: 9}) // @12 is c
	wantShown(t, "one is free after an hour", measure(k, waitedFor(61*time.Minute, map[string]int{"a": 9, "c": 1, "d": 5})),
		map[string]int{"a": 9, "c": 1, otherKeys: 5})
	for n := range 1000 {
		if shown := measure(k, waitedFor(62*time.Minute, map[string]int{fmt.Sprint(n): 1})); len(shown) > 3 {
			t.Fatalf("there are %d labels: %v", len(shown), shown)
		}
	}
}

func TestKeysWithoutWaitersHaveNoSeries(t *testing.T) {
	k := newKeyLabels(2)
	shown := measure(k, waitedFor(0, map[string]int{"a": 0, "b": 0}))
	wantShown(t, "held only", shown, map[string]int{otherKeys: 0})
	if n := shown[keyLabel{"shop", otherKeys}].holders; n != 2 {
		t.Errorf("they have %d holders together", n)
	}
	wantShown(t, "no labels at all", measure(newKeyLabels(0), waitedFor(0, map[string]int{"a": 2})),
		map[string]int{otherKeys: 2})
}

func TestKeysWithOneLabelAreAddedUp(t *testing.T) {
	s := waitedFor(0, map[string]int{"a": 1})
	s.Locks = append(s.Locks, s.Locks[0])
	wantShown(t, "two of one number", measure(newKeyLabels(1), s), map[string]int{"a": 2})
}

// measure returns the contention of the keys of a snapshot that have labels.
func measure(k *keyLabels, s *monitor.Snapshot) map[keyLabel]contention {
	return k.choose(contentions(s, false), s.TakenAt)
}
