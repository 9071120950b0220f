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

// remember returns a recording of snapshots.
func remember(t *testing.T, snapshots ...*monitor.Snapshot) *recording.Past {
	t.Helper()
	memory := recording.NewMemory(1 << 20)
	for _, s := range snapshots {
		line, err := recording.Encode(s, nil, false)
		must.Succeed(t, errors.Join(err, memory.Add(line)))
	}
	return memory.Past()
}

// A report has a bounded number of waits, whatever is recorded.
func TestTheWaitsOfAReportAreBounded(t *testing.T) {
	defer func(most int) { maxWaits = most }(maxWaits)
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	var snapshots []*monitor.Snapshot
	for i := range 60 {
		at := noon.Add(time.Duration(i) * time.Second)
		snapshots = append(snapshots, &monitor.Snapshot{TakenAt: at, Locks: []monitor.Lock{{Key: "@1", Number: 1, Objsubid: 1,
			Waiters: []monitor.Waiter{{WaitingSince: &at, Session: monitor.Session{PID: 7}}}}}})
	}
	for most, ok := range map[int]bool{50: false, 60: true} {
		maxWaits = most
		if _, err := Of(remember(t, snapshots...), noon, noon.Add(time.Hour)); (err == nil) != ok {
			t.Errorf("of %d waits: %v", most, err)
		}
	}
}

// chainSnapshot has a waiter for the key 1, whose holder itself waits for a lock of flyway, with another waiter behind it.
func chainSnapshot(at time.Time, waiter monitor.Session, lock monitor.OtherLock) *monitor.Snapshot {
	began := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	holder := monitor.Session{PID: 8, Application: "sync-job"}
	waiter.PID = 9
	return &monitor.Snapshot{TakenAt: at, Database: "shop", Cycles: []monitor.Cycle{}, Locks: []monitor.Lock{{
		Key: "@1", Number: 1, Objsubid: 1, Database: "shop", Names: []string{}, Guesses: []string{},
		Holders: []monitor.Holder{{Mode: "exclusive", Session: holder}},
		Waiters: []monitor.Waiter{{Mode: "exclusive", WaitingSince: &began, Session: waiter,
			BlockedBy: []monitor.Blocker{{PID: 8, Kind: "hard"}}}},
	}}, OtherWaits: []monitor.OtherWait{{Lock: lock,
		Waiter: monitor.Waiter{Mode: "RowExclusiveLock", WaitingSince: &began, Session: holder,
			BlockedBy: []monitor.Blocker{{PID: 7, Kind: "hard"}}}}, {Lock: lock,
		Waiter: monitor.Waiter{Mode: "AccessShareLock", WaitingSince: &began, Session: monitor.Session{PID: 10, Application: "web"},
			BlockedBy: []monitor.Blocker{{PID: 8, Kind: "soft"}}}}},
		OtherSessions: []monitor.Session{{PID: 7, Application: "flyway-migrate"}}}
}

// The holder of the key is only the next victim. A waiter whose details come one snapshot later is counted by its name.
func TestTheRootOfAWaitIsNamed(t *testing.T) {
	for want, lock := range map[string]monitor.OtherLock{
		"relation orders":              {Type: "relation", Name: "orders"},
		"row of orders in transaction": {Type: "transactionid", Relation: 1, Name: "orders"}, // of two transactions
	} {
		var snapshots []*monitor.Snapshot
		noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
		unknown := monitor.Session{Hidden: []string{"user", "application"}}
		for i, waiter := range []monitor.Session{unknown, {Application: "shop", User: "app"}, {Application: "shop", User: "app"}} {
			lock.Detail = fmt.Sprint(742 + i/2)
			snapshots = append(snapshots, chainSnapshot(noon.Add(time.Duration(i+1)*time.Second), waiter, lock))
		}
		r, err := Of(remember(t, snapshots...), noon, noon.Add(time.Hour))
		must.Succeed(t, err)
		var text strings.Builder
		must.Succeed(t, Text(&text, r))
		behind := "  blocked by: flyway-migrate 3.0s, sync-job 3.0s\n  at the root: flyway-migrate 6.0s\n"
		said := "  blocked by: sync-job 3.0s\n  at the root: flyway-migrate, " + want + " 3.0s\n  waited: shop 3.0s\n"
		if !strings.Contains(text.String(), said) || len(r.Keys) != 2 || !strings.Contains(text.String(), behind) || r.Keys[0].Total != 6 || r.Keys[1].Total != 3 {
			t.Errorf("the report is\n%s\nwant\n%s%s", text.String(), behind, said)
		}
	}
}

func TestAPreparedTransactionKeepsItsIdentifier(t *testing.T) {
	if name := nameOf(&monitor.Session{GID: "nightly", User: "app"}); name != `prepared transaction "nightly" of app` {
		t.Errorf("it is %s", name)
	}
}

// recordedTwice is a file of one recorder, which sees a wait until it ends, and one of another that begins later.
func recordedTwice(t *testing.T, later time.Duration) *recording.Past {
	t.Helper()
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	path := filepath.Join(t.TempDir(), "locks.rec")
	waits := func(at time.Time) *monitor.Snapshot {
		return &monitor.Snapshot{TakenAt: at, Cycles: []monitor.Cycle{}, Locks: []monitor.Lock{{Key: "@66", Objsubid: 1, Database: "shop",
			Space: "bigint", Number: 66, Holders: []monitor.Holder{{Session: monitor.Session{PID: 8, Application: "gh", User: "app"}}},
			Waiters: []monitor.Waiter{{Session: monitor.Session{PID: 9, Application: "gw", User: "app"}, WaitingSince: &noon}}}}}
	}
	calm := func(at time.Time) *monitor.Snapshot {
		return &monitor.Snapshot{TakenAt: at, Cycles: []monitor.Cycle{}, Locks: []monitor.Lock{}}
	}
	begin := noon.Add(3 * time.Second).Add(later)
	for _, snapshots := range [][]*monitor.Snapshot{{calm(noon), waits(noon.Add(time.Second)), waits(noon.Add(3 * time.Second))},
		{calm(begin), calm(begin.Add(time.Second))}} {
		w, err := recording.NewWriter(path, recording.WriterOptions{MaxSize: 1 << 30, About: recording.About{Interval: 1}})
		must.Succeed(t, err)
		for _, s := range snapshots {
			line, err := recording.Encode(s, nil, false)
			must.Succeed(t, errors.Join(err, w.Add(line)))
		}
		must.Succeed(t, w.Close())
	}
	files, err := recording.Files(path)
	must.Succeed(t, err)
	past, err := recording.OpenPast(files...)
	must.Succeed(t, err)
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
