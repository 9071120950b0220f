package cli

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/job"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/journal"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/monitor"
)

// watchServers watches more than one server.
func (m *watch) watchServers(cmd *cobra.Command, dbs []database, filter view.Filter) error {
	if err := errors.Join(m.record.check(cmd, m.once), m.http.check(cmd, m.once)); err != nil {
		return err
	}
	m.quiet = m.quiet || m.http.address != "" || m.record.path != "" && !cmd.Flags().Changed("output") && !m.events && !m.fillsScreen()
	_, err := job.While(cmd.Context(), job.Catch(), func(ctx context.Context) (struct{}, error) {
		f, err := newServerGroup(ctx, dbs, "pglock monitor", m.options)
		if err != nil {
			return struct{}{}, err
		}
		defer f.close()
		for _, member := range f.members {
			if member.clients, err = m.poolers.connect(ctx); err != nil {
				return struct{}{}, err
			}
			defer member.clients.close(context.WithoutCancel(ctx))
		}
		if m.once {
			return struct{}{}, m.showServersOnce(ctx, f, filter)
		}
		stop, err := m.recordServers(f)
		if err != nil {
			return struct{}{}, err
		}
		switch {
		case m.http.address != "":
			err = m.serveServers(ctx, f, filter)
		case m.fillsScreen():
			err = m.fillScreenWithServers(ctx, f, filter)
		default:
			err = m.followServers(ctx, f, filter)
		}
		return struct{}{}, errors.Join(err, stop())
	})
	if _, stopped := errors.AsType[*job.Stopped](err); stopped && !m.once {
		return nil // there is no other way to end it
	}
	return err
}

// showServersOnce prints a snapshot of each server that answers: tables with the worst first, other formats in the order
// of the flags. Standard error and the exit code report the servers that do not answer.
func (m *watch) showServersOnce(ctx context.Context, f *serverGroup, filter view.Filter) error {
	all := f.snapshotAll(ctx)
	if m.output == formatTable {
		slices.SortStableFunc(all, func(a, b snapshotResult) int { return view.CompareUrgency(a.snapshot, b.snapshot) })
	}
	printers := m.printers(f, filter)
	worst := 0
	for _, each := range all {
		if each.err != nil {
			say(os.Stderr, "%v", each.err)
			worst = max(worst, code(each.err))
			continue
		}
		if err := printers[each.member].show(each.snapshot); err != nil {
			return err
		}
	}
	if worst != 0 {
		return &exit{code: worst}
	}
	return nil
}

// followServers prints the snapshots of all servers as they arrive.
func (m *watch) followServers(ctx context.Context, f *serverGroup, filter view.Filter) error {
	printers := m.printers(f, filter)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var printing sync.Mutex
	var following sync.WaitGroup
	errs := make([]error, len(f.members))
	for i, member := range f.members {
		p := printers[member]
		following.Go(func() {
			defer cancel() // the error is that of ctx or of printing
			errs[i] = member.follow(ctx, time.Duration(m.interval), func(s *monitor.Snapshot, events []journal.Event, err error) error {
				printing.Lock()
				defer printing.Unlock()
				if err != nil {
					return p.missed(err)
				}
				m.notify.add(filter, events)
				return m.print(p, filter, s, events)
			})
		})
	}
	following.Wait()
	return errors.Join(errs...)
}

// checkServers is runCheck for more than one server. The result is that of the worst, and each server is named.
func (m *watch) checkServers(cmd *cobra.Command, dbs []database, filter view.Filter) error {
	all, err := job.While(cmd.Context(), job.Catch(), func(ctx context.Context) ([]snapshotResult, error) {
		f, err := newServerGroup(ctx, dbs, "pglock monitor", m.options)
		if err != nil {
			return nil, err
		}
		defer f.close()
		return f.snapshotAll(ctx), nil
	})
	if err != nil {
		return exitWith(view.Unknown, view.StatusLine(view.Unknown, oneLine(err.Error())))
	}
	limits := m.check.limits(cmd)
	judged := make([]view.Judgement, len(all))
	for i, each := range all {
		if each.err != nil {
			judged[i] = view.Judgement{Verdict: view.Unknown, Text: oneLine(each.err.Error())}
		} else {
			judged[i] = view.Judge(each.snapshot, filter, limits, each.db.flags)
		}
		judged[i].Server = each.db.label
	}
	return exitWith(view.StatusOfServers(judged))
}
