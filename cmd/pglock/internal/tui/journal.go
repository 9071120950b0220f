package tui

import (
	"context"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/journal"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/monitor"
)

// journalText lists the events of contended keys. It is bounded, since the pane is rewritten for each snapshot.
func journalText(m Model, width int) []string {
	t := &text{width: width}
	var events []journal.Event
	if m.options.Events != nil {
		events = m.options.Events()
	}
	if len(events) == 0 {
		t.add(1, "no key has been waited for yet")
	}
	for _, event := range events[max(0, len(events)-maxLog):] {
		t.add(1, "%s", view.EventText(event))
	}
	return t.lines
}

// holdPhrase says how a lock is held, and since when it is known to be.
func holdPhrase(s *monitor.Snapshot, holder *monitor.Holder) string {
	phrase := "holds it " + view.Printable(holder.Mode)
	switch {
	case holder.Lease != nil:
		phrase += " for " + rowHeld(s, holder)
	case holder.SeenSince != nil:
		phrase += ", " + journal.HeldText(*holder.SeenSince, s.TakenAt)
	}
	return phrase
}

// seek moves in a recording and shows the snapshot there. It moves in the command that takes the snapshot, since
// moving can be slow.
func (m Model) seek(by time.Duration) (Model, tea.Cmd) {
	if m.taking {
		return m, nil
	}
	seek, take := m.options.Seek, m.options.Take
	m.options.Take = func(ctx context.Context, all bool, of monitor.SessionID) (*monitor.Snapshot, error) {
		if err := seek(by); err != nil {
			return nil, err
		}
		return take(ctx, all, of)
	}
	next, cmd := m.takeSnapshots(true)
	next.options.Take = take
	return next, cmd
}
