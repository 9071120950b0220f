package tui

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/monitor"
)

// server is what the view knows about one server. It is never changed, only replaced.
type server struct {
	Server
	index int // among the servers
	// snapshot is the latest, and trends the past up to it. Before the first answer the snapshot is empty, with the
	// time when the view began.
	snapshot *monitor.Snapshot
	trends   trends
	seen     bool  // there has been a snapshot
	lost     error // why there has been no snapshot since
	taking   bool
}

func newServers(o Options) []server {
	given := o.Servers
	if len(given) == 0 {
		given = []Server{{Target: o.Target, First: o.First, Take: o.Take, Events: o.Events, End: o.End}}
	}
	var all []server
	for i, s := range given {
		known := server{Server: s, index: i, snapshot: s.First, seen: s.First != nil}
		if known.seen {
			known.trends = trends{}.with(s.First)
		} else {
			known.snapshot, known.taking = &monitor.Snapshot{TakenAt: time.Now().UTC()}, true // Init begins
		}
		all = append(all, known)
	}
	return all
}

// on returns the model with another selected server.
func (m Model) on(i int) Model {
	m.server = m.servers[i]
	if i < len(m.board.parts) {
		m.board.snapshot, m.board.chain = m.board.parts[i].snapshot, m.board.parts[i].chain
	}
	return m
}

// kept stores the copy of the selected server among the servers.
func (m Model) kept() Model {
	m.servers = slices.Clone(m.servers)
	m.servers[m.server.index] = m.server
	return m
}

// focused selects the server of the selected row.
func (m Model) focused() Model {
	if r, ok := m.here(); ok && r.id.server < len(m.servers) {
		return m.on(r.id.server)
	}
	return m.on(min(m.server.index, len(m.servers)-1))
}

func (m Model) several() bool { return len(m.servers) > 1 }

// serverOf is the server on which to signal a session: the label comes from the snapshot that the user saw.
func (m Model) serverOf(target monitor.SignalTarget) server {
	i := slices.IndexFunc(m.servers, func(s server) bool { return s.Label == target.Server.Label })
	if i < 0 {
		return server{Server: Server{End: refuse}}
	}
	return m.servers[i]
}

// refuse sends no signal: on another server the process ID belongs to another session.
func refuse(_ context.Context, _ monitor.Signal, c monitor.SignalTarget) (monitor.Outcome, error) {
	return monitor.Outcome{}, fmt.Errorf("not signalled: there is no server %q", c.Server.Label)
}

// onServer names the server, if there are several.
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

// who names the server in a sentence; silence says that it does not answer.
func (s server) who() string {
	if s.Label == "" {
		return "the server"
	}
	return s.Label
}

func (s server) silence() string {
	if s.Label == "" {
		return "no answer"
	}
	return "no answer from " + s.Label
}
