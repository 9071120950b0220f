package tui

import (
	"context"
	"fmt"

	tea "charm.land/bubbletea/v2"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/monitor"
)

// EndHolder ends a process that holds locks in rows.
type EndHolder struct {
	// Inspect returns what the process holds, as [monitor.InspectHolder] does.
	Inspect func(ctx context.Context, holder string) (monitor.RowTarget, error)
	// End ends it, as [monitor.EndHolder] does, and records that.
	End func(context.Context, monitor.RowTarget) error
}

// holderMsg describes the process to end, from a new snapshot.
type holderMsg struct {
	target   monitor.RowTarget
	snapshot *monitor.Snapshot
	err      error
}

// holderEndMsg is the outcome of ending a process.
type holderEndMsg struct {
	target monitor.RowTarget
	err    error
}

// prepareHolderEnd looks up what a process holds.
func (m Model) prepareHolderEnd(signal monitor.Signal, p *monitor.RowProcess) (Model, tea.Cmd) {
	look, holder := m.options.EndHolder.Inspect, p.Holder
	switch {
	case signal == monitor.SignalCancel:
		return m.addLog("a process with locks in rows runs no statement to cancel (t ends it)"), nil
	case look == nil:
		return m.addLog("processes with locks in rows cannot be ended here"), nil
	}
	ctx, take := m.ctx, m.takeSnapshot(true)
	m.inspecting = true
	return m.addLog("looking at process " + processLabel(p) + " …"), func() tea.Msg {
		ctx, cancel := context.WithTimeout(ctx, snapshotTimeout)
		defer cancel()
		fresh := take().(snapshotMsg)
		if fresh.err != nil {
			return holderMsg{err: fresh.err}
		}
		target, err := look(ctx, holder)
		return holderMsg{target, fresh.snapshot, err}
	}
}

// handleHolder shows everything that ends with a process, and asks for confirmation. The ID of a process is never used
// again, so it is the same process when the user confirms. Locks that it takes meanwhile are freed with those that are shown.
func (m Model) handleHolder(h holderMsg) (Model, tea.Cmd) {
	m.inspecting = false
	switch {
	case h.err != nil:
		return m.addLog(oneLine(h.err.Error())), nil
	case m.prompt != nil:
		return m.addLog("not asked about process " + h.target.Holder + ": another input is open"), nil
	}
	label := processLabel(&h.target.RowProcess)
	return m.ask(question{"end process " + label, "process " + label + " goes on",
		func(m Model) (Model, tea.Cmd) { return m.endHolder(h) }},
		func(width int) []string { return view.PreviewHolder(h.snapshot, h.target, width) })
}

func (m Model) endHolder(h holderMsg) (Model, tea.Cmd) {
	m.signalling = true
	ctx, end := context.WithoutCancel(m.ctx), m.options.EndHolder.End
	return m.addLog("end process " + processLabel(&h.target.RowProcess) + " …"), func() tea.Msg {
		ctx, cancel := context.WithTimeout(ctx, signalTimeout)
		defer cancel()
		return holderEndMsg{h.target, end(ctx, h.target)}
	}
}

// handleHolderEnd logs the outcome, and takes a snapshot.
func (m Model) handleHolderEnd(e holderEndMsg) (Model, tea.Cmd) {
	m.signalling = false
	label := processLabel(&e.target.RowProcess)
	if e.err != nil {
		m = m.addLog(oneLine(e.err.Error())).addLog(fmt.Sprintf("process %s was not ended%s (l: log)", label, shortReason(e.err)))
	} else {
		m = m.addLog(fmt.Sprintf("process %s is ended: %s in rows free; it is told at its next renewal", label, plural(len(e.target.Locks), "lock")))
	}
	return m.takeSnapshots(true)
}
