package report

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/journal"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/recording"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/monitor"
)

// A recording from a stranger has a bounded number of waits; one that is trusted has any number.
func TestTheWaitsOfAStrangersRecordingAreBounded(t *testing.T) {
	defer func(most int) { maxWaits = most }(maxWaits)
	maxWaits = 50
	path, e := filepath.Join(t.TempDir(), "locks.rec"), recording.NewEncoder(false)
	w, err := recording.NewWriter(path, recording.WriterOptions{})
	must.Succeed(t, err)
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	for i := range 60 {
		at := noon.Add(time.Duration(i) * time.Second)
		s := &monitor.Snapshot{TakenAt: at, Locks: []monitor.Lock{{Key: "@1", Number: 1, Objsubid: 1,
			Waiters: []monitor.Waiter{{WaitingSince: &at, Session: monitor.Session{PID: 7}}}}}}
		encoded, err := e.Snapshot(s, nil)
		must.Succeed(t, errors.Join(err, w.Write(encoded)))
	}
	must.Succeed(t, w.Close())
	for _, large := range []bool{false, true} {
		past, err := recording.OpenPast(large, path)
		must.Succeed(t, err)
		r, err := Of(past, noon, noon.Add(time.Hour))
		if large && (err != nil || r.Keys[0].Waits != 60) || !large && !errors.Is(err, recording.ErrTooLarge) {
			t.Errorf("large %t: %+v, %v", large, r, err)
		}
		must.Succeed(t, past.Close())
	}
}

// chainSnapshot has a waiter for the key 1, whose holder itself waits for a lock of flyway.
func chainSnapshot(at time.Time, waiter monitor.Session, lock monitor.OtherLock) *monitor.Snapshot {
	began := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	holder := monitor.Session{PID: 8, Application: "sync-job"}
	waiter.PID = 9
	return &monitor.Snapshot{TakenAt: at, Database: "shop", Cycles: []monitor.Cycle{}, Locks: []monitor.Lock{{
		Key: "@1", Number: 1, Objsubid: 1, Database: "shop", Names: []string{}, Guesses: []monitor.Guess{},
		Holders: []monitor.Holder{{Mode: monitor.ModeExclusive, Session: holder}},
		Waiters: []monitor.Waiter{{Mode: monitor.ModeExclusive, WaitingSince: &began, Session: waiter,
			BlockedBy: []monitor.Blocker{{PID: 8, Kind: monitor.BlockHard}}}},
	}}, OtherWaits: []monitor.OtherWait{{Lock: lock,
		Waiter: monitor.Waiter{Mode: "RowExclusiveLock", WaitingSince: &began, Session: holder,
			BlockedBy: []monitor.Blocker{{PID: 7, Kind: monitor.BlockHard}}}}},
		OtherSessions: []monitor.Session{{PID: 7, Application: "flyway-migrate"}}}
}

// The holder of the key is only the next victim. A waiter whose details come one snapshot later is counted by its name.
func TestTheRootOfAWaitIsNamed(t *testing.T) {
	for want, lock := range map[string]monitor.OtherLock{
		"relation orders":              {Type: "relation", Name: "orders"},
		"row of orders in transaction": {Type: "transactionid", Relation: 1, Name: "orders"}, // of two transactions
	} {
		past, e := recording.NewPast(), recording.NewEncoder(false)
		noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
		unknown := monitor.Session{Hidden: []string{"user", "application"}}
		for i, waiter := range []monitor.Session{unknown, {Application: "shop", User: "app"}, {Application: "shop", User: "app"}} {
			lock.TransactionID = fmt.Sprint(742 + i/2)
			encoded, err := e.Snapshot(chainSnapshot(noon.Add(time.Duration(i+1)*time.Second), waiter, lock), nil)
			must.Succeed(t, err)
			past.Add(encoded, 1<<20)
		}
		r, err := Of(past, noon, noon.Add(time.Hour))
		must.Succeed(t, err)
		var text strings.Builder
		must.Succeed(t, Text(&text, r))
		want = "  held by: sync-job 3.0s\n  at the root: flyway-migrate, " + want + " 3.0s\n  waited: shop 3.0s\n" +
			"\nWaits for other locks, such as those of tables and rows: up to 1 at a time.\n"
		if !strings.Contains(text.String(), want) || len(r.Keys) != 1 {
			t.Errorf("the report is\n%s\nwant\n%s", text.String(), want)
		}
	}
}

// A session that ends while a snapshot is taken still has its lock there, but no name.
func TestAHolderThatEndsKeepsItsName(t *testing.T) {
	past, e := recording.NewPast(), recording.NewEncoder(false)
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	for i, holder := range []monitor.Session{{PID: 8, Application: "nightly", User: "app"}, {PID: 8, Hidden: []string{"user", "application"}}} {
		encoded, err := e.Snapshot(&monitor.Snapshot{TakenAt: noon.Add(time.Duration(i+1) * time.Second), Cycles: []monitor.Cycle{},
			Locks: []monitor.Lock{{Key: "@42", Objsubid: 1, Space: monitor.SpaceBigint, Number: 42, Holders: []monitor.Holder{{Session: holder}},
				Waiters: []monitor.Waiter{{Session: monitor.Session{PID: 9, Application: "shop", User: "app"}, WaitingSince: &noon}}}}}, nil)
		must.Succeed(t, err)
		past.Add(encoded, 1<<20)
	}
	r, err := Of(past, noon, noon.Add(time.Hour))
	must.Succeed(t, err)
	if len(r.Keys) != 1 || len(r.Keys[0].Holders) != 1 || r.Keys[0].Holders[0].Name != "nightly" {
		t.Errorf("the report is %+v", r.Keys)
	}
}

// recordedTwice is a file of one recorder, which sees a wait until it ends, and one of another that begins later.
func recordedTwice(t *testing.T, later time.Duration) *recording.Past {
	t.Helper()
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	path := filepath.Join(t.TempDir(), "locks.rec")
	waits := func(at time.Time) *monitor.Snapshot {
		return &monitor.Snapshot{TakenAt: at, Cycles: []monitor.Cycle{}, Locks: []monitor.Lock{{Key: "@66", Objsubid: 1, Database: "shop",
			Space: monitor.SpaceBigint, Number: 66, Holders: []monitor.Holder{{Session: monitor.Session{PID: 8, Application: "gh", User: "app"}}},
			Waiters: []monitor.Waiter{{Session: monitor.Session{PID: 9, Application: "gw", User: "app"}, WaitingSince: &noon}}}}}
	}
	calm := func(at time.Time) *monitor.Snapshot {
		return &monitor.Snapshot{TakenAt: at, Cycles: []monitor.Cycle{}, Locks: []monitor.Lock{}}
	}
	begin := noon.Add(3 * time.Second).Add(later)
	for _, snapshots := range [][]*monitor.Snapshot{{calm(noon), waits(noon.Add(time.Second)), waits(noon.Add(3 * time.Second))},
		{calm(begin), calm(begin.Add(time.Second))}} {
		e := recording.NewEncoder(false)
		w, err := recording.NewWriter(path, recording.WriterOptions{About: recording.About{Interval: 1}})
		must.Succeed(t, err)
		for _, s := range snapshots {
			encoded, err := e.Snapshot(s, nil)
			must.Succeed(t, errors.Join(err, w.Write(encoded)))
		}
		must.Succeed(t, w.Close())
	}
	files, err := recording.Files(path)
	must.Succeed(t, err)
	past, err := recording.OpenPast(false, files...)
	must.Succeed(t, err)
	t.Cleanup(func() { must.Succeed(t, past.Close()) })
	return past
}

// While no recorder runs nothing is seen, so nothing counts as waiting. A recorder that begins another file is no gap.
func TestTheTimeWithoutARecorderIsNoWait(t *testing.T) {
	for later, want := range map[time.Duration]struct {
		max             float64
		outages, unseen int
		text, waited    string
	}{
		20 * time.Second: {3, 1, 1, "  database shop, 1 ended unseen (at least so long)\n", "≥ 3.0s"},
		time.Second:      {4, 0, 0, "  database shop\n", "4.0s"},
	} {
		past := recordedTwice(t, later)
		first, last, _ := past.Bounds()
		r, err := Of(past, first, last)
		must.Succeed(t, err)
		var text strings.Builder
		must.Succeed(t, Text(&text, r))
		if len(r.Keys) != 1 || r.Keys[0].Max != want.max || r.Outages != want.outages || r.Keys[0].Unseen != want.unseen ||
			!strings.Contains(text.String(), want.text) {
			t.Errorf("%v later: %d outages, %+v\n%s", later, r.Outages, r.Keys, text.String())
		}
		j, events := journal.New(), []string{}
		for frame, err := range past.Play(first) {
			must.Succeed(t, err)
			if frame.Outage != nil {
				j.Missed(errors.New(frame.Outage.Reason))
				continue
			}
			for _, e := range j.See(frame.Snapshot) {
				events = append(events, e.String())
			}
		}
		if got := events[len(events)-1]; got != "@66: 9 gw stopped waiting after "+want.waited {
			t.Errorf("%v later: %s", later, strings.Join(events, "\n"))
		}
	}
}
