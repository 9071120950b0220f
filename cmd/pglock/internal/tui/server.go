package tui

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/monitor"
)

// server is what the view knows about one server. It is immutable.
type server struct {
	Server
	index int // among the servers
	// snapshot is the latest one, and trends are those up to it. Before the first, snapshot is empty and has the time
	// when the view began.
	snapshot *monitor.Snapshot
	trends   trends
	seen     bool  // a snapshot has arrived
	lost     error // why none has arrived since; nil unless the server is down
	taking   bool
}

func newServers(o Options) []server {
	given := o.Servers
	if len(given) == 0 {
		given = []Server{{Target: o.Target, Flags: o.Flags, First: o.First, Take: o.Take, Events: o.Events, End: o.End, MayEnd: o.MayEnd,
			EndHolder: o.EndHolder}}
	}
	var all []server
	for i, s := range given {
		known := server{Server: s, index: i, snapshot: s.First, seen: s.First != nil}
		if known.seen {
			known.trends = trends{}.with(s.First)
		} else {
			known.snapshot, known.taking = &monitor.Snapshot{TakenAt: time.Now().UTC()}, true // Init takes the first
		}
		all = append(all, known)
	}
	return all
}

// withServer returns the model with another selected server.
func (m Model) withServer(i int) Model {
	m.server = m.servers[i]
	if i < len(m.table.sources) {
		m.table.snapshot, m.table.tree = m.table.sources[i].snapshot, m.table.sources[i].tree
	}
	return m
}

// storeServer stores the copy of the selected server among the servers.
func (m Model) storeServer() Model {
	m.servers = slices.Clone(m.servers)
	m.servers[m.server.index] = m.server
	return m
}

// withRowServer returns the model with the server of the selected row.
func (m Model) withRowServer() Model {
	if r, ok := m.selectedRow(); ok && r.id.server < len(m.servers) {
		return m.withServer(r.id.server)
	}
	return m.withServer(min(m.server.index, len(m.servers)-1))
}

func (m Model) multiServer() bool { return len(m.servers) > 1 }

// serverOf returns the server that a target is on, by the label in the snapshot that the user saw.
func (m Model) serverOf(target monitor.SignalTarget) server {
	i := slices.IndexFunc(m.servers, func(s server) bool { return s.Label == target.Server.Label })
	if i < 0 {
		return server{Server: Server{End: refuse}}
	}
	return m.servers[i]
}

// refuse refuses to signal: on another server the process ID would belong to another session.
func refuse(_ context.Context, _ monitor.Signal, c monitor.SignalTarget) (monitor.Outcome, error) {
	return monitor.Outcome{}, fmt.Errorf("not signalled: there is no server %q", c.Server.Label)
}

// onServer returns " on LABEL", or "" if there is only one server.
func onServer(label string) string {
	if label == "" {
		return ""
	}
	return " on " + view.Printable(label)
}

// now is the time of the latest snapshot of any server.
func (m Model) now() time.Time {
	latest := m.snapshot.TakenAt
	for _, s := range m.servers {
		if s.snapshot.TakenAt.After(latest) {
			latest = s.snapshot.TakenAt
		}
	}
	return latest
}

// displayName names the server in a sentence.
func (s server) displayName() string {
	if s.Label == "" {
		return "the server"
	}
	return s.Label
}

func (s server) noAnswer() string {
	if s.Label == "" {
		return "no answer"
	}
	return "no answer from " + s.Label
}
