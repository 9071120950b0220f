package tui

import (
	"context"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
)

func process(holder, application, host string, pid int32) monitor.Session {
	expires := noon.Add(12 * time.Second)
	return monitor.Session{User: "app", Database: "shop", Application: application, Since: ago(time.Hour), Hidden: []string{},
		Lease: &monitor.Lease{Holder: holder, Host: host, PID: pid, Expires: &expires}}
}

func rowLock(name string, holder monitor.Session, generation int64) monitor.Lock {
	key := pglock.NewKey(name)
	return monitor.Lock{InRow: true, Key: key.String(), Names: []string{name}, Kind: "lock", Space: "bigint", Objsubid: 1,
		Number: key.Int64(), Database: "shop",
		Holders: []monitor.Holder{{Mode: "exclusive", Generation: generation, SeenSince: ago(40 * time.Second), Session: holder}}}
}

const (
	billingHolder = "59652b93587a812b"
	shopHolder    = "8b4d398f5bcd5891"
)

// withRows adds locks in rows to a snapshot: a process with two, for one of which another process waits, and a process whose
// host the role may not see. Its process IDs are those of sessions.
func withRows(s *monitor.Snapshot) *monitor.Snapshot {
	billing, shop, secret := process(billingHolder, "billing", "web-1", 4711), process(shopHolder, "shop", "web-2", 4712),
		process("00112233445566aa", "nightly", "", 0)
	secret.Hidden = []string{"client"}
	contended := rowLock("invoice:42", billing, 7)
	contended.Waiters = []monitor.Waiter{{Mode: "exclusive", WaitingSince: ago(75 * time.Second), Session: shop,
		BlockedBy: []monitor.Blocker{{Holder: billingHolder, Kind: "hard"}}}}
	s.Locks = append(s.Locks, contended, rowLock("invoice:43", billing, 8), rowLock("report:7", secret, 9))
	return s
}

func emptySnapshot() *monitor.Snapshot {
	return &monitor.Snapshot{TakenAt: noon, ServerVersion: "16.4", Database: "shop", Role: "dba"}
}

func TestLocksInRowsAreOnAllPages(t *testing.T) {
	u := open(t, Options{First: withRows(mixedSnapshot())}, 120, 40)
	u.wants("5 waiters, longest wait 1m15s  8 keys (3 in rows)  9 holders",
		"4711@web-1 billing           holds excl      invoice:42 (row)           40s, lease 12s, generatio…      1 app",
		"└─ 4712@web-2 shop           1m15s excl      invoice:42 (row)           lease 12s")
	u.presses("1")
	u.wants("> invoice:42 (row)", "4711@web-1 billing", "report:7 (row)", "00112233445566aa nightly", "  invoice:42  ")
	u.presses("2")
	u.presses("/web-2", "enter")
	u.wantsNot("nightly")
	u.wants("4711@web-1 billing", "└─ 4712@web-2 shop")
	u.presses("1")
	u.wants("invoice:42 (row)")
	u.wantsNot("report:7", "@99")
}

func TestALockInARowHasDetails(t *testing.T) {
	u := open(t, Options{First: withRows(emptySnapshot())}, 120, 40)
	u.wants("Terminate billing (process 4711 on web-1), holds invoice:42 (excl) in a row: probably frees")
	u.presses("enter")
	u.wants("── process 4711@web-1 billing", "holder       "+billingHolder, "lease        lease left 12s", "holds 2 locks",
		"invoice:42 (row) exclusive for 40s, generation 7, 1 waiter", "invoice:43 (row) exclusive for 40s, generation 8",
		"blocks 1 directly, 1 in all", "4712@web-2 shop, waits for invoice:42 (row) (excl) for 1m15s")
	u.presses("esc", "down", "enter")
	u.wants("── process 4712@web-2 shop", "waits for invoice:42 (row): wants it exclusive, waits for 1m15s, blocked by 4711@web-1")
	u.presses("esc", "1", "enter")
	u.wants("── key invoice:42 (row)", "4711@web-1 holds it exclusive for 40s, generation 7", "4712@web-2 wants it exclusive")
	u.presses("esc")
	u.snapshotArrives(emptySnapshot())
	u.presses("enter")
	u.wants("Nothing waits. No locks held.", "no locks")
}

// The process ID of a process that holds locks in rows is often that of a session, too. Its keys end the process, never a
// session.
func TestEndingAHolderOfLocksInRows(t *testing.T) {
	var asked []monitor.SessionID
	var ended []string
	o := Options{First: withRows(mixedSnapshot()),
		End: func(_ context.Context, signal string, target monitor.Target) (monitor.Outcome, error) {
			ended = append(ended, target.Ref)
			return monitor.Outcome{Signal: signal, Target: target, Sent: true, Ended: true}, nil
		},
		Take: func(_ context.Context, _ bool, of monitor.SessionID) (*monitor.Snapshot, error) {
			asked = append(asked, of)
			return withRows(mixedSnapshot()), nil
		}}
	for _, keys := range [][]string{{"1", "t"}, {"1", "enter", "t"}, {"2", "/web-1", "enter", "t"}} {
		u := open(t, o, 120, 30)
		u.presses(keys...)
		u.wants("looking at process 4711@web-1 billing")
		asked, ended = nil, nil
		u.send(u.command())
		u.wants("── terminate process 4711@web-1 billing?", "Ending it probably frees 1.", "the process itself goes on.", "It holds 2 locks",
			"invoice:42 (row)", "Type yes to terminate process 4711@web-1 billing:")
		u.presses("no", "enter")
		u.wants("cancelled: no signal was sent to process 4711@web-1 billing")
		u.presses("t")
		u.send(u.command())
		u.presses("yes", "enter")
		if len(ended) != 0 || !u.m.signalling {
			t.Fatalf("%q: nothing is being ended", keys)
		}
		u.send(u.command())
		u.wants("process " + billingHolder + " has lost its locks in rows")
		if of := (monitor.SessionID{Holder: billingHolder}); len(asked) < 2 || asked[0] != of || asked[1] != of ||
			strings.Join(ended, " ") != billingHolder || !u.m.taking {
			t.Errorf("%q: %v were looked up and %v ended", keys, asked, ended)
		}
	}
	u := open(t, o, 80, 24)
	u.presses("1", "c")
	u.wants("a process with locks in rows runs no statement to cancel")
	u = open(t, Options{First: withRows(mixedSnapshot())}, 80, 24)
	u.presses("1", "t")
	if u.command != nil || u.m.inspecting {
		t.Error("a view that is read-only looks a process up")
	}
}

// What is not all there says so.
func TestMissingLocksInRowsAreSaid(t *testing.T) {
	s := withRows(emptySnapshot())
	s.RowLocksMissing = "2001 of 3002 holders and waiters of locks in rows are left out"
	u := open(t, Options{First: s}, 120, 30)
	u.wants("not all locks in rows (i)")
	u.presses("i")
	u.wants("locks in rows: 2001 of 3002")
}

func TestForeignTextOfProcessesDoesNotControlTheTerminal(t *testing.T) {
	s := withRows(emptySnapshot())
	for i := range s.Locks {
		l := &s.Locks[i]
		l.Key, l.Names = hostile, []string{hostile}
		for j := range l.Holders {
			l.Holders[j].Application, l.Holders[j].Lease.Host, l.Holders[j].User, l.Holders[j].Mode = hostile, hostile, hostile, hostile
		}
		for j := range l.Waiters {
			l.Waiters[j].Application, l.Waiters[j].Lease.Host, l.Waiters[j].User, l.Waiters[j].Mode = hostile, hostile, hostile, hostile
		}
	}
	u := start(t, Options{First: s}, 120, 60)
	visitAll(u, func() {
		for _, r := range u.screen() {
			if r != '\n' && !unicode.IsPrint(r) {
				t.Fatalf("the screen contains %U:\n%q", r, u.screen())
			}
		}
	})
	target, err := s.Target(s.Locks[0].Holders[0].ID())
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range view.Preview(s, target, "terminate", 80) {
		if strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("the preview contains %q", line)
		}
	}
}
