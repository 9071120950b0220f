package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/tui"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
)

// fillScreenWithServers shows the view, even before a server has answered, and leaves a line about each server on the
// terminal.
func (m *watch) fillScreenWithServers(ctx context.Context, f *serverGroup, filter view.Filter) error {
	var log delayedWriter
	options := m.screen(filter)
	for _, member := range f.members {
		options.Servers = append(options.Servers, tui.Server{
			Label:  member.db.label,
			Target: member.db.target,
			Flags:  member.db.flags,
			Take:   m.takeFunc(member.observer),
			Events: m.zonedEvents(member.recentEvents),
			End:    m.signalFunc(member.db, member.pool, &log),
			MayEnd: m.mayFunc(member.pool),

			EndHolder: m.holderFuncs(member.db, member.pool, &log),
		})
	}
	last, err := tui.RunServers(ctx, options)
	_, printErr := io.WriteString(os.Stdout, lines(lastLines(f, last, filter)))
	return errors.Join(err, printErr, log.close())
}

// lastLines describes each server's last state, the worst first.
func lastLines(f *serverGroup, last []tui.Last, filter view.Filter) (all []string) {
	order := make([]int, len(last))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return view.CompareUrgency(last[a].Snapshot, last[b].Snapshot) })
	for _, i := range order {
		name, s := f.members[i].db.named(), last[i].Snapshot
		switch {
		case last[i].Lost != nil:
			all = append(all, view.Cut(view.Printable(fmt.Sprintf("%s  no answer: %s", name, oneLine(last[i].Lost.Error()))), width()))
		case s == nil:
			all = append(all, view.Cut(view.Printable(name+"  no answer yet"), width()))
		default:
			all = append(all, view.Cut(view.Summary(s, filter, name), width()))
		}
	}
	return all
}
