package tui

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
)

// threeServers returns options with three servers: a mixed one, one with a deadlock, and one that has not answered yet.
// Their sessions have the same process IDs.
func threeServers() Options {
	busy, stuck := mixedSnapshot(), deadlockSnapshot()
	busy.Server = monitor.Server{Host: "10.0.0.1", Port: 5432, Label: "db1:5432/shop"}
	stuck.Server = monitor.Server{Host: "10.0.0.2", Port: 5432, InRecovery: true, Label: "db2:5432/shop"}
	return Options{Servers: []Server{
		{Label: "db1:5432/shop", Target: "app@db1:5432/shop", First: busy},
		{Label: "db2:5432/shop", Target: "app@db2:5432/shop", First: stuck},
		{Label: "db3:5432/shop", Target: "app@db3:5432/shop"},
	}}
}

func TestAllServersShareATableWorstFirst(t *testing.T) {
	u := start(t, threeServers(), 100, 30)
	u.send(snapshotMsg{server: 2, err: errors.New("connection refused")})
	u.wants("3 servers  1 standby  1 LOST", "LOST db3 since the beginning, ", " UTC: connection refused",
		" db2: deadlock for 1.0s: 4711 waits for @2", "lock table ≥3% (db1)", "by worst", "SERVER")
	var order []int
	for _, r := range u.m.table.rows {
		order = append(order, r.id.server)
	}
	if !slices.Equal(order[:3], []int{1, 1, 0}) || len(order) != 7 {
		t.Errorf("the rows are of the servers %v", order)
	}
	u.wants("\n>!db2 ", "\n !db2 ", "\n  db1 ")
	u.presses("2")
	u.wants("db2", "transfer 1", "payments")
	if first := u.m.table.rows[0]; first.id.server != 1 {
		t.Errorf("the tree begins with %+v", first.id)
	}
	u.presses("3")
	u.wants("db1", "db2")
	u.presses("i")
	u.wants("10.0.0.1:5432")
	u.presses("G")
	u.wants("db3:5432/shop", "LOST")
}

// The common end of all labels is left out.
func TestLabelsAreShort(t *testing.T) {
	for _, test := range []struct{ labels, want []string }{
		{[]string{"a:5432/shop", "b:5432/shop"}, []string{"a", "b"}},
		{[]string{"h:5432/shop", "h:5433/shop"}, []string{":5432", ":5433"}},
		{[]string{"db1.eu.example.com:5432/shop", "db2.eu.example.com:5432/shop"}, []string{"db1", "db2"}},
		{[]string{"10.0.0.1:5432/shop", "10.1.0.1:5432/shop"}, []string{"10.0.0.1", "10.1.0.1"}},
		{[]string{"[::1]:5432/a", "[::1]:5433/b"}, []string{":5432/a", ":5433/b"}},

		{[]string{"a:5432/shop", "b:5432/billing"}, []string{"a:5432/shop", "b:5432/billing"}},
		{[]string{"orders", "billing"}, []string{"orders", "billing"}},
	} {
		m := Model{}
		for _, label := range test.labels {
			m.servers = append(m.servers, server{Server: Server{Label: label}})
		}
		if got := []string{m.shortLabel(0), m.shortLabel(1)}; !slices.Equal(got, test.want) {
			t.Errorf("%v are shown as %v, want %v", test.labels, got, test.want)
		}
	}
}

// A server that does not answer delays neither the others nor the ticks.
func TestServersAreWatchedIndependently(t *testing.T) {
	u := start(t, threeServers(), 100, 30)
	if !u.m.servers[2].taking || u.m.servers[0].taking {
		t.Error("at first a snapshot must be taken of the unseen server only")
	}
	u.send(tickMsg{u.m.tickID})
	for _, s := range u.m.servers {
		if !s.taking {
			t.Errorf("no snapshot is taken of %s", s.Label)
		}
	}
	later := mixedSnapshot()
	later.Locks, later.TakenAt = nil, noon.Add(time.Second)
	u.send(snapshotMsg{server: 0, snapshot: later})
	if u.m.servers[0].taking || !u.m.servers[1].taking || !u.m.servers[2].taking {
		t.Error("the answer of one server is taken for that of another")
	}
	u.wants("2 keys") // of the other server
	u.send(snapshotMsg{server: 2, err: errors.New("refused")})
	u.send(snapshotMsg{server: 2, snapshot: mixedSnapshot()})
	u.presses("l")
	u.wants("no answer from db3:5432/shop: refused", "db3:5432/shop answers again")
}

// The same process ID on two servers is two sessions. The signal goes to the one in the row.
func TestASignalGoesToTheServerOfTheRow(t *testing.T) {
	o := threeServers()
	var signalled []string
	for i := range o.Servers {
		label, first := o.Servers[i].Label, o.Servers[i].First
		o.Servers[i].Take = func(context.Context, bool) (*monitor.Snapshot, error) { return first, nil }
		o.Servers[i].End = func(_ context.Context, _ monitor.Signal, c monitor.SignalTarget) (monitor.Outcome, error) {
			signalled = append(signalled, label+" "+c.Server.Label)
			return monitor.Outcome{Target: c}, nil
		}
	}
	for _, want := range []string{"db1:5432/shop", "db2:5432/shop"} {
		u := start(t, o, 100, 40)
		u.presses("3")
		for i, r := range u.m.table.rows { // both have a session 4711
			if r.session.PID == 4711 && u.m.servers[r.id.server].Label == want {
				u.m.cursors[pageSessions] = u.m.cursors[pageSessions].move(i, u.m.table.rows)
			}
		}
		u.presses("t")
		u.send(u.command())
		u.wants("Type yes to terminate session 4711 on "+want, "server "+want+", at 10.0.0.")
		if standby := want == "db2:5432/shop"; strings.Contains(u.screen(), "(standby)") != standby {
			t.Errorf("the preview does not say what kind of server it is:\n%s", u.screen())
		}
		u.presses("yes", "enter")
		u.send(u.command())
	}
	if want := []string{"db1:5432/shop db1:5432/shop", "db2:5432/shop db2:5432/shop"}; !slices.Equal(signalled, want) {
		t.Errorf("signalled %q, want %q", signalled, want)
	}
	if _, err := (Model{}).serverOf(monitor.SignalTarget{}).End(t.Context(), "", monitor.SignalTarget{}); err == nil {
		t.Error("a session on an unknown server was signalled")
	}
}

func TestAFilterFindsServers(t *testing.T) {
	u := start(t, threeServers(), 100, 30)
	u.presses("/", "db2:", "enter")
	for _, r := range u.m.table.rows {
		if r.id.server != 1 {
			t.Errorf("the row %+v is of another server", r.id)
		}
	}
	if len(u.m.table.rows) != 2 {
		t.Errorf("there are %d rows", len(u.m.table.rows))
	}
}

// The same key on two servers is two keys.
func TestAKeyIsFollowedOnItsServer(t *testing.T) {
	o := threeServers()
	same := lock(pglock.NewKey("invoice:42"))
	same.Holders = []monitor.Holder{holds(session(4711, "other"), monitor.ModeExclusive)}
	o.Servers[1].First.Locks = append(o.Servers[1].First.Locks, same)
	u := start(t, o, 100, 30)
	for i, r := range u.m.table.rows {
		if r.lock.Key == "invoice:42" && r.id.server == 1 {
			u.m.cursors[pageKeys] = u.m.cursors[pageKeys].move(i, u.m.table.rows)
		}
	}
	u.presses("f")
	u.wants("following invoice:42 on db2:5432/shop: held by 4711 other")
	u.send(snapshotMsg{server: 0, snapshot: mixedSnapshot()})
	u.wants("following invoice:42 on db2:5432/shop: held by 4711 other")
	u.send(snapshotMsg{server: 1, snapshot: deadlockSnapshot()})
	u.wants("following invoice:42 on db2:5432/shop: free")
}

func TestTrendsOfSeveralServers(t *testing.T) {
	var a, b series
	for _, value := range []int64{1, 2, noValue} {
		a = a.with(value)
	}
	b = b.with(10).with(20)
	sum := a.merge(b, func(x, y int64) int64 { return x + y })
	if got := sum.last(3); !slices.Equal(got, []int64{1, 12, 20}) {
		t.Errorf("the sum is %v", got)
	}
}
