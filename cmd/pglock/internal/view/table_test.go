package view

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
)

var now = time.Date(2026, 7, 5, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) *time.Time {
	t := now.Add(-d)
	return &t
}

// snapshot returns a snapshot with locks and sessions of every kind.
func snapshot() *monitor.Snapshot {
	session := func(pid int32, application, state string) monitor.Session {
		return monitor.Session{PID: pid, User: "alice", Database: "shop", Application: application,
			Client: "192.0.2.7:49152", State: state, StateSince: ago(3 * time.Minute), Since: ago(2 * time.Hour)}
	}
	blocker := func(pid int32, kind string) monitor.Blocker { return monitor.Blocker{PID: pid, Kind: kind} }
	editor := session(4711, "billing", "idle in transaction")
	editor.Query = "-- name: Book :exec\nUPDATE invoice\n\tSET paid = true"
	stranger := session(4714, "billing", "")
	stranger.Client, stranger.Hidden = "", []string{"client", "state", "query"}
	prepared := monitor.Session{User: "bob", GID: "it's", PreparedAt: ago(time.Hour)}
	gone := monitor.Session{PID: 4715, Hidden: []string{"user", "application", "client", "state"}}
	return &monitor.Snapshot{
		TakenAt: now, ServerVersion: "17.5 (Debian 17.5-1.pgdg12+1)", Database: "shop", Role: "watcher",
		DetailsHidden: `role "watcher" may not see the details of other roles' sessions: ` +
			`GRANT pg_read_all_stats TO "watcher"`,
		Locks: []monitor.Lock{
			{
				Key: "@5", Space: "bigint", Objsubid: 1, Number: 5, Database: "shop",
				Holders: []monitor.Holder{{Mode: "exclusive", Session: session(99, "psql", "idle")}},
			},
			{
				Key: "@7/-42", Space: "pair", Objsubid: 2, Database: "other",
				Holders: []monitor.Holder{{Mode: "shared", Session: prepared}},
				Waiters: []monitor.Waiter{{Mode: "exclusive", Session: session(4716, "psql", "active"),
					WaitingSince: ago(time.Second), BlockedBy: []monitor.Blocker{{GID: "it's", Kind: "hard"}}}},
			},
			{
				Key: "invoice:42", Names: []string{"invoice:42"},
				Space: "bigint", Objsubid: 1, Number: 6688477336110245193, Database: "shop",
				Holders: []monitor.Holder{{Mode: "exclusive", Session: editor}},
				Waiters: []monitor.Waiter{
					{Mode: "exclusive", Session: session(4712, "billing", "active"),
						WaitingSince: ago(90 * time.Second), BlockedBy: []monitor.Blocker{blocker(4711, "hard")}},
					{Mode: "shared", Session: stranger, WaitingSince: ago(12 * time.Second),
						BlockedBy: []monitor.Blocker{blocker(4711, "hard")}},
					{Mode: "exclusive", Session: gone, BlockedBy: []monitor.Blocker{
						blocker(4711, "hard")}},
				},
			},
		},
	}
}

const inEightyColumns = `
alice@db1:5432/shop  PostgreSQL 17.5  2026-07-05 12:00:00 UTC

Terminate 4711 billing, idle in transaction for 3m00s, holds invoice:42 (excl):
  frees 3, longest wait 1m30s; 1 other waits
  ran: UPDATE invoice SET paid = true
  pglock terminate 4711@2026-07-05T10:00:00Z

SESSION         WAITED MODE   LOCK       DOING
4711 billing     holds excl   invoice:42 idle in tx 3m00s: UPDATE invoice SET p…
├─ 4712 billing  1m30s excl   invoice:42 active 3m00s
├─ 4714 billing    12s shared invoice:42 (hidden) 3m00s
└─ 4715 ?            ? excl   invoice:42 ?
'it's'           holds shared @7/-42     prepared 1h00m ago
└─ 4716 psql      1.0s excl   @7/-42     active 3m00s

KEY                             HELD BY      MODE   WAIT LONGEST
invoice:42 @6688477336110245193 4711 billing excl      3   1m30s idle in tx 3m0…
@7/-42 in other                 'it's'       shared    1    1.0s prepared 1h00m…
@5                              99 psql      excl                idle 3m00s

3 keys, 3 holders, 4 waiters
hidden: role "watcher" may not see the details of other roles' sessions: GRANT
  pg_read_all_stats TO "watcher"
`

func TestTable(t *testing.T) {
	got := "\n" + strings.Join(Table(snapshot(), Filter{}, Server{Target: "alice@db1:5432/shop"}, 80), "\n") + "\n"
	if got != inEightyColumns {
		t.Errorf("got %s\nwant %s", got, inEightyColumns)
	}
}

func TestNoLineButACommandIsWiderThanTheTable(t *testing.T) {
	s := snapshot()
	s.Locks[0].Names = []string{"a", "b"}
	s.Locks[0].Key = strings.Repeat("a | b", 40)
	s.Locks[2].Holders[0].Application = strings.Repeat("日本語", 20)
	s.Locks[2].Holders[0].State = "a state that no server of today knows"
	for width := 20; width < 200; width++ {
		for _, line := range Table(s, Filter{}, Server{Target: "alice@db1:5432/shop"}, width) {
			if Columns(line) > width && !strings.HasPrefix(line, "  pglock terminate 4711@") { // a command is whole
				t.Fatalf("%d columns instead of %d: %s", Columns(line), width, line)
			}
		}
	}
}

func TestTheLastQueryOfAnIdleLockerSessionIsNotShown(t *testing.T) {
	for state, shown := range map[string]bool{"idle": false, "active": true, "idle in transaction": true} {
		for process, shown := range map[string]bool{"": true, "1f3a9c42": shown} {
			s := snapshot()
			holder := &s.Locks[2].Holders[0]
			holder.State, holder.Process = state, process
			target, err := s.Target(monitor.SessionID{PID: holder.PID})
			if err != nil {
				t.Fatal(err)
			}
			for _, lines := range [][]string{Table(s, Filter{}, Server{Target: "db1"}, 80), Preview(s, target, "terminate", 80)} {
				text := strings.Join(lines, "\n")
				if strings.Contains(text, "UPDATE invoice") != shown || !strings.Contains(text, "3m00s") {
					t.Errorf("%s, process %q: the query should be shown: %v\n%s", state, process, shown, text)
				}
			}
		}
	}
}

func TestATableWithoutLocks(t *testing.T) {
	s := &monitor.Snapshot{TakenAt: now, ServerVersion: "13.1", NamesMissing: "because"}
	got := strings.Join(Table(s, Filter{}, Server{Target: "x"}, 80), "\n")
	if want := "x  PostgreSQL 13.1  2026-07-05 12:00:00 UTC\n\nNothing waits. No locks held.\n\nno advisory locks\nnames: because"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAKeyHasTheNameFromTheFilter(t *testing.T) {
	key, s := pglock.NewKey("given"), snapshot()
	s.Locks[0].Number = key.Int64()
	table := strings.Join(Table(s, Filter{Keys: []pglock.Key{key}}, Server{Target: "x"}, 80), "\n")
	if !strings.Contains(table, fmt.Sprintf("\ngiven @%d ", key.Int64())) || s.Locks[0].Key != "@5" {
		t.Errorf("got %s", table)
	}
}

const inFiftyColumns = `
x  PostgreSQL 17.5  2026-07-05 12:00:00 UTC

Terminate 4711 billing, idle in transaction for
  3m00s, holds probably Rails migrations of
  database shop (excl): frees 3, longest wait
  1m30s; 1 other waits
  ran: UPDATE invoice SET paid = true
  pglock terminate 4711@2026-07-05T10:00:00Z

DEADLOCK for 1.0s: 4712 → 4716 → 4712 (4712 waits
  for invoice:42, 4716 waits for @7/-42)
POSSIBLE DEADLOCK between processes: 4714 → 4714
  (4714 waits for @9)

SESSION     WAITED MODE   LOCK        DOING
4711 billi…  holds excl   probably R… idle in tx …
├─ 4712 bi…  1m30s excl   probably R… active 3m00s
├─ 4714 bi…    12s shared probably R… (hidden) 3m…
└─ 4715 ?        ? excl   probably R… ?
'it's'       holds shared @7/-42      prepared 1h…
└─ 4716 ps…   1.0s excl   @7/-42      active 3m00s

KEY      HELD BY  MODE   WAIT LONGEST
probabl… 4711 bi… excl      3   1m30s idle in tx …
@7/-42 … 'it's'   shared    1    1.0s prepared 1h…
@5       99 psql  excl                idle 3m00s
`

func TestANarrowTableOfEverything(t *testing.T) {
	s := snapshot()
	invoice := &s.Locks[2]
	invoice.Key, invoice.Names = "@2053462845", nil
	invoice.Guesses = []string{"Rails migrations of database shop"}
	s.Cycles = []monitor.Cycle{
		{Certain: true, Since: ago(time.Second), Steps: []monitor.Step{
			{PID: 4712, Key: "invoice:42", BlockedBy: 4716}, {PID: 4716, Key: "@7/-42", BlockedBy: 4712}}},
		{Steps: []monitor.Step{{PID: 4714, Key: "@9", BlockedBy: 4715}}},
	}
	s.Capacity = monitor.Capacity{Nominal: 6400, Used: 321, Advisory: 300}
	table := "\n" + strings.Join(Table(s, Filter{}, Server{Target: "x"}, 50), "\n") + "\n"
	if !strings.HasPrefix(table, inFiftyColumns) {
		t.Errorf("got %s\nwant %s", table, inFiftyColumns)
	}
	if note := "lock table: at least 5.0% of nominal"; !strings.Contains(table, note) {
		t.Errorf("no %q in %s", note, table)
	}
}

func TestTheServerThatAnsweredIsNamed(t *testing.T) {
	s := snapshot()
	s.Server = monitor.Server{Host: "192.0.2.2", Port: 5432}
	for target, want := range map[string]string{"u@a:5432/x": "u@a:5432/x  ", "u@a:5432,b:5432/x": "u@a:5432,b:5432/x at 192.0.2.2:5432  "} {
		if title := NewPage(s, Filter{}, Server{Target: target}).Title(); !strings.HasPrefix(title, want) {
			t.Errorf("of %s the title is %q", target, title)
		}
	}
}

func TestBlockersThatCouldNotBeRead(t *testing.T) {
	s := snapshot()
	s.BlockersMissing = "it took too long"
	table := strings.Join(Table(s, Filter{}, Server{Target: "x"}, 80), "\n")
	if !strings.Contains(table, "blocked by: it took too long") {
		t.Errorf("got %s", table)
	}
}

// 10,000 locks are a page: the tree, the contended keys, and a line about the others.
func TestATextOfManyLocksIsAPage(t *testing.T) {
	s := snapshot()
	for i := range 10_000 {
		lock := monitor.Lock{Key: fmt.Sprint("@", i), Number: int64(i), Objsubid: 1, Database: "shop", Holders: s.Locks[0].Holders}
		if i < 500 {
			lock.Waiters = []monitor.Waiter{{Session: monitor.Session{PID: int32(10_000 + i)}, WaitingSince: ago(time.Second),
				BlockedBy: []monitor.Blocker{{PID: 99, Kind: "hard"}}}}
		}
		s.Locks = append(s.Locks, lock)
	}
	lines := Table(s, Filter{}, Server{Target: "x"}, 80)
	text := strings.Join(lines, "\n")
	if len(lines) > 60 || !strings.Contains(text, "\n… 492 more keys with waiters\n9501 keys without waiters, held by 99 psql") ||
		!strings.Contains(text, "KEY") || strings.Index(text, "99 psql") > strings.Index(text, "KEY") {
		t.Errorf("%d lines:\n%s", len(lines), text)
	}
	for _, height := range []int{0, 7, 24} {
		if n := len(OneScreen(s, Filter{}, Server{Target: "x"}, 80, height)); n > height {
			t.Errorf("%d lines on a screen of %d", n, height)
		}
	}
}

func TestGuidesConnectTheRowsOfATree(t *testing.T) {
	want := []string{"", "├─ ", "│  └─ ", "│     ├─ ", "│     └─ ", "└─ ", ""}
	if got := guidesOf([]int{0, 1, 2, 3, 3, 1, 0}); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
