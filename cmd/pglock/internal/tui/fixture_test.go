package tui

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) *time.Time {
	t := noon.Add(-d)
	return &t
}

// user drives a model as Bubble Tea does, but runs no commands that wait.
type user struct {
	t       testing.TB
	m       Model
	command tea.Cmd // of the last message
}

// start opens the view on the first page.
func start(t testing.TB, o Options, width, height int) *user {
	t.Helper()
	u := open(t, o, width, height)
	u.presses("1")
	return u
}

// open opens the view on the page that it chooses.
func open(t testing.TB, o Options, width, height int) *user {
	t.Helper()
	if o.Server.Target == "" {
		o.Server.Target = "app@db.example:5432/shop"
	}
	if o.Interval == 0 {
		o.Interval = time.Second
	}
	u := &user{t: t, m: newModel(t.Context(), o)}
	u.send(tea.WindowSizeMsg{Width: width, Height: height})
	return u
}

func (u *user) send(msg tea.Msg) {
	next, command := u.m.Update(msg)
	u.m, u.command = next.(Model), command
}

// snapshotArrives delivers another snapshot.
func (u *user) snapshotArrives(s *monitor.Snapshot) { u.send(snapshotMsg{snapshot: s}) }

var namedKeys = map[string]tea.Key{
	"enter": {Code: tea.KeyEnter}, "esc": {Code: tea.KeyEscape}, "tab": {Code: tea.KeyTab}, "up": {Code: tea.KeyUp},
	"down": {Code: tea.KeyDown}, "left": {Code: tea.KeyLeft}, "right": {Code: tea.KeyRight},
	"end": {Code: tea.KeyEnd}, "home": {Code: tea.KeyHome}, "pgdown": {Code: tea.KeyPgDown},
	"space": {Code: tea.KeySpace, Text: " "}, "ctrl+c": {Code: 'c', Mod: tea.ModCtrl},
	"ctrl+l":    {Code: 'l', Mod: tea.ModCtrl},
	"backspace": {Code: tea.KeyBackspace},
}

// presses presses keys. An argument that is no name in namedKeys is typed as text.
func (u *user) presses(keys ...string) {
	for _, name := range keys {
		if key, ok := namedKeys[name]; ok {
			u.send(tea.KeyPressMsg(key))
			continue
		}
		for _, r := range name {
			u.send(tea.KeyPressMsg{Code: r, Text: string(r)})
		}
	}
}

// screen returns the screen without colours.
func (u *user) screen() string { return ansi.Strip(u.m.View().Content) }

func (u *user) wants(parts ...string) {
	u.t.Helper()
	for _, part := range parts {
		if !strings.Contains(u.screen(), part) {
			u.t.Errorf("the screen does not show %q:\n%s", part, u.screen())
		}
	}
}

func (u *user) wantsNot(parts ...string) {
	u.t.Helper()
	for _, part := range parts {
		if strings.Contains(u.screen(), part) {
			u.t.Errorf("the screen shows %q:\n%s", part, u.screen())
		}
	}
}

// golden compares the screen with a file.
func (u *user) golden(name string) {
	u.t.Helper()
	path := filepath.Join("testdata", name+".golden")
	got := trimLines(u.screen())
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			u.t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		u.t.Fatalf("%v (go test -update writes it)", err)
	}
	if got != string(want) {
		u.t.Errorf("the screen is not the one of %s\ngot:\n%s\nwant:\n%s", path, got, want)
	}
}

// trimLines removes spaces at the ends of lines, which editors would remove from the golden files.
func trimLines(screen string) string {
	var b strings.Builder
	for line := range strings.Lines(screen) {
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return b.String()
}

func session(pid int32, application string) monitor.Session {
	return monitor.Session{PID: pid, User: "app", Database: "shop", Application: application, Client: "10.0.0.7:4000",
		State: "active", StateSince: ago(10 * time.Second), Query: "SELECT work()", Since: ago(time.Hour),
		TransactionSince: ago(time.Minute)}
}

func lock(key pglock.Key) monitor.Lock {
	class, object := int32(key.Int64()>>32), int32(key.Int64())
	l := monitor.Lock{Key: key.String(), Number: key.Int64(), Class: class, Object: object, Space: "bigint",
		Objsubid: int16(key.ID().Space), DatabaseOID: 5, Database: "shop"}
	if key.Name() != "" {
		l.Names = []string{key.Name()}
	}
	return l
}

func holds(s monitor.Session, mode string) monitor.Holder {
	return monitor.Holder{Mode: mode, Session: s}
}

func waits(s monitor.Session, mode string, since time.Duration, blockers ...monitor.Blocker) monitor.Waiter {
	return monitor.Waiter{Mode: mode, WaitingSince: ago(since), Session: s, BlockedBy: blockers}
}

func hardBlocker(pid int32) monitor.Blocker {
	return monitor.Blocker{PID: pid, Kind: "hard"}
}
func softBlocker(pid int32) monitor.Blocker {
	return monitor.Blocker{PID: pid, Kind: "soft"}
}

// mixedSnapshot returns a snapshot with locks and sessions of every kind.
func mixedSnapshot() *monitor.Snapshot {
	payments := session(4711, "payments")
	payments.State, payments.StateSince = "idle in transaction", ago(5*time.Minute)
	invoice := lock(pglock.NewKey("invoice:42"))
	invoice.Holders = []monitor.Holder{holds(payments, "exclusive")}
	invoice.Waiters = []monitor.Waiter{
		waits(session(4712, "worker-1"), "exclusive", 12300*time.Millisecond, hardBlocker(4711)),
		waits(session(4713, "worker-2"), "exclusive", 9*time.Second, hardBlocker(4711)),
	}
	pair := lock(pglock.PairKey(7, -42))
	pair.Space = "pair"
	pair.Holders = []monitor.Holder{
		holds(session(4713, "worker-2"), "shared"), holds(session(4714, "reader"), "shared")}
	pair.Waiters = []monitor.Waiter{
		waits(session(4715, "writer"), "exclusive", 3*time.Second, hardBlocker(4713), hardBlocker(4714)),
		waits(session(4716, "late reader"), "shared", time.Second, softBlocker(4715)),
	}
	prepared := lock(pglock.Int64Key(99))
	prepared.Holders = []monitor.Holder{holds(monitor.Session{GID: "order 7", PreparedAt: ago(26 * time.Hour),
		User: "app", Database: "shop"}, "exclusive")}
	guessed := lock(pglock.Int64Key(4097083626))
	guessed.Guesses = []string{"goose migrations"}
	secret := monitor.Session{PID: 4717, User: "other", Database: "shop", Application: "nightly",
		Hidden: []string{"client", "state", "state_since", "query", "session_since", "transaction_since",
			"wait_event_type", "wait_event"}}
	guessed.Holders = []monitor.Holder{holds(secret, "exclusive")}
	elsewhere := lock(pglock.Int64Key(7))
	elsewhere.Database, elsewhere.DatabaseOID = "billing", 6
	elsewhere.Holders = []monitor.Holder{holds(session(4718, "cron"), "exclusive")}
	return &monitor.Snapshot{
		TakenAt: noon, ServerVersion: "16.4 (Debian 16.4-1)", Database: "shop", Role: "dba",
		DetailsHidden: `role dba may not see the details of other roles' sessions: GRANT pg_read_all_stats TO dba`,
		Capacity: monitor.Capacity{Nominal: 12800, Used: 412, Advisory: 7, MaxLocksPerTransaction: 64, MaxConnections: 200,
			Top: []monitor.SessionLoad{{Session: payments, Locks: 300}, {Session: secret, Locks: 9}}},
		Locks: []monitor.Lock{prepared, guessed, invoice, pair, elsewhere},
	}
}

// deadlockSnapshot returns a snapshot of two sessions that wait for each other.
func deadlockSnapshot() *monitor.Snapshot {
	first, second := lock(pglock.Int64Key(1)), lock(pglock.Int64Key(2))
	a, b := session(4711, "transfer 1"), session(4712, "transfer 2")
	first.Holders = []monitor.Holder{holds(a, "exclusive")}
	second.Holders = []monitor.Holder{holds(b, "exclusive")}
	second.Waiters = []monitor.Waiter{waits(a, "exclusive", 2*time.Second, hardBlocker(4712))}
	first.Waiters = []monitor.Waiter{waits(b, "exclusive", time.Second, hardBlocker(4711))}
	return &monitor.Snapshot{TakenAt: noon, ServerVersion: "16.4", Database: "shop", Role: "dba",
		Locks: []monitor.Lock{first, second},
		Cycles: []monitor.Cycle{{Certain: true, Since: ago(time.Second), Steps: []monitor.Step{
			{PID: 4711, Key: "@2", Database: "shop", BlockedBy: 4712, Kind: "hard"},
			{PID: 4712, Key: "@1", Database: "shop", BlockedBy: 4711, Kind: "hard"},
		}}}}
}

// fullLockTable returns a snapshot of a server whose lock table is nearly full.
func fullLockTable() *monitor.Snapshot {
	s := mixedSnapshot()
	s.Capacity.Used = 12000
	return s
}

// manyLocks returns a snapshot of n locks that two sessions hold. A few of them are contended.
func manyLocks(n int) *monitor.Snapshot {
	s := &monitor.Snapshot{TakenAt: noon, ServerVersion: "16.4", Database: "shop", Role: "dba"}
	for i := range n {
		l := lock(pglock.NewKey(fmt.Sprintf("job:%d", i)))
		l.Holders = []monitor.Holder{holds(session(int32(1000+i%2), "worker"), "exclusive")}
		if i%500 == 0 {
			l.Waiters = []monitor.Waiter{waits(session(int32(2000+i/500), "client"), "exclusive",
				time.Duration(i)*time.Millisecond, hardBlocker(int32(1000+i%2)))}
		}
		s.Locks = append(s.Locks, l)
	}
	return s
}
