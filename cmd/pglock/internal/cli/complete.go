package cli

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgservicefile"
	"github.com/spf13/cobra"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/monitor"
)

// completionTimeout bounds the wait for the server after the user has pressed Tab.
const completionTimeout = 2 * time.Second

// completionSnapshot takes a snapshot for a completion. It returns nil if that fails.
func (d *dsn) completionSnapshot(cmd *cobra.Command) *monitor.Snapshot {
	db, err := d.resolve(cmd)
	if err != nil {
		return nil
	}
	return db.completionSnapshot()
}

// completionSnapshots takes a snapshot of each server that answers.
func (s *servers) completionSnapshots(cmd *cobra.Command) []*monitor.Snapshot {
	all, err := s.resolve(cmd)
	if err != nil {
		return nil
	}
	found := make([]*monitor.Snapshot, len(all))
	var peeking sync.WaitGroup
	for i, db := range all {
		peeking.Go(func() { found[i] = db.completionSnapshot() })
	}
	peeking.Wait()
	return slices.DeleteFunc(found, func(s *monitor.Snapshot) bool { return s == nil })
}

func (db database) completionSnapshot() *monitor.Snapshot {
	ctx, cancel := context.WithTimeout(context.Background(), completionTimeout)
	defer cancel()
	pool, err := db.pool(ctx, "pglock completion")
	if err != nil {
		return nil
	}
	defer pool.Close()
	snapshot, err := monitor.Take(ctx, pool, monitor.WithTrustedOwner(db.trusted...))
	if err != nil {
		return nil
	}
	return snapshot
}

// completeKeys makes the shell complete a flag's value to the keys that are held or waited for.
func (d *dsn) completeKeys(cmd *cobra.Command, flag string) {
	completeWith(cmd, flag, func(cmd *cobra.Command) []candidate { return keysOf(d.completionSnapshot(cmd)) })
}

func (s *servers) completeKeys(cmd *cobra.Command, flag string) {
	completeWith(cmd, flag, func(cmd *cobra.Command) (keys []candidate) {
		for _, snapshot := range s.completionSnapshots(cmd) {
			keys = append(keys, keysOf(snapshot)...)
		}
		return keys
	})
}

// keysOf returns the keys of the database.
func keysOf(s *monitor.Snapshot) (keys []candidate) {
	if s == nil {
		return nil
	}
	for _, lock := range s.Locks {
		if lock.Database != s.Database {
			continue
		}
		keys = append(keys, candidate{view.KeyWord(lock), fmt.Sprintf("%d waiting", len(lock.Waiters))})
	}
	return keys
}

// completeHolders makes the shell complete a flag's value to the processes that hold locks in rows.
func (d *dsn) completeHolders(cmd *cobra.Command, flag string) {
	completeWith(cmd, flag, func(cmd *cobra.Command) []candidate { return holdersOf(d.completionSnapshot(cmd)) })
}

// holdersOf returns the processes that hold locks in rows, with their first keys.
func holdersOf(s *monitor.Snapshot) (all []candidate) {
	if s == nil {
		return nil
	}
	keys, names := map[string][]string{}, map[string]string{}
	for _, lock := range s.RowLocks {
		for _, h := range lock.Holders {
			keys[h.Holder], names[h.Holder] = append(keys[h.Holder], lock.Key), h.Application
		}
	}
	for holder, held := range keys {
		const most = 3
		about := strings.Join(held[:min(most, len(held))], ", ")
		if more := len(held) - most; more > 0 {
			about += fmt.Sprintf(", +%d", more)
		}
		all = append(all, candidate{holder, strings.TrimSpace(names[holder] + " " + about)})
	}
	return all
}

// candidate is what the shell may complete a word to, and what it shows beside it.
type candidate struct{ value, about string }

// line writes the candidate for the shell: a word, a tab, and text. bash puts all of it on the command line if it is the
// beginning of several lines, and evaluates that when Tab is pressed again.
func (c candidate) line() string {
	if c.about == "" {
		return c.value
	}
	return c.value + "\t" + notInert.ReplaceAllString(c.about, "_")
}

var notInert = regexp.MustCompile(`[^A-Za-z0-9_.:/@%+,= -]`)

// inertLines returns the candidates with a beginning that the shell may get. Each is there once, or the shell would take the
// text beside it for a part of what they have in common.
func inertLines(all []candidate, begun string) (inert []string) {
	for _, c := range all {
		if view.Inert(c.value) && strings.HasPrefix(c.value, begun) {
			inert = append(inert, c.line())
		}
	}
	slices.Sort(inert)
	return slices.CompactFunc(inert, func(a, b string) bool {
		first, _, _ := strings.Cut(a, "\t")
		second, _, _ := strings.Cut(b, "\t")
		return first == second
	})
}

// completeWith makes the shell complete a flag's value to the results of a function.
func completeWith(cmd *cobra.Command, flag string, find func(cmd *cobra.Command) []candidate) {
	err := cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		return inertLines(find(cmd), begun), cobra.ShellCompDirectiveNoFileComp
	})
	if err != nil {
		panic(err) // only if the flag does not exist
	}
}

// serviceNames returns the services of the service file that connections use.
func serviceNames(*cobra.Command) (names []candidate) {
	settings, _ := effectiveSettings("")
	file, err := pgservicefile.ReadServicefile(settings["servicefile"])
	if err != nil {
		return nil
	}
	for _, service := range file.Services {
		names = append(names, candidate{value: service.Name})
	}
	return names
}

// completePIDs completes an argument to the process IDs of the sessions in a snapshot.
func (d *dsn) completePIDs(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	var pids []candidate
	if s := d.completionSnapshot(cmd); s != nil && len(args) == 0 {
		for session := range s.Sessions() {
			if !session.Prepared() {
				pids = append(pids, candidate{fmt.Sprint(session.PID), session.Application})
			}
		}
	}
	return inertLines(pids, begun), cobra.ShellCompDirectiveNoFileComp
}
