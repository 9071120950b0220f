package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/tui"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/monitor"
)

// fillScreenOfSeveral shows the view, which begins before any server has answered, and leaves a line about each server on
// the terminal.
func (m *watch) fillScreenOfSeveral(ctx context.Context, f *fleet, filter view.Filter) error {
	times := m.times()
	var log aside
	var all []tui.Server
	for _, member := range f.members {
		all = append(all, tui.Server{
			Label:  member.db.label,
			Target: member.db.target,
			Take: func(ctx context.Context) (*monitor.Snapshot, error) {
				s, err := member.take(ctx)
				if err != nil {
					return nil, err
				}
				return times(s), nil
			},
			Events: member.happened,
			End:    m.ender(member.db, member.pool, &log),
		})
	}
	last, err := tui.RunSeveral(ctx, tui.Options{Servers: all, Interval: time.Duration(m.interval), Filter: filter, Output: os.Stdout})
	_, printErr := io.WriteString(os.Stdout, lines(lastLines(f, last, filter)))
	return errors.Join(err, printErr, log.close())
}

// lastLines say of each server what it was like, the worst first.
func lastLines(f *fleet, last []tui.Last, filter view.Filter) (all []string) {
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
