package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
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
	completeWith(cmd, flag, func(cmd *cobra.Command, begun string) []string { return keysOf(d.completionSnapshot(cmd), begun) })
}

func (s *servers) completeKeys(cmd *cobra.Command, flag string) {
	completeWith(cmd, flag, func(cmd *cobra.Command, begun string) (keys []string) {
		for _, snapshot := range s.completionSnapshots(cmd) {
			keys = append(keys, keysOf(snapshot, begun)...)
		}
		return keys
	})
}

func keysOf(s *monitor.Snapshot, begun string) (keys []string) {
	if s == nil {
		return nil
	}
	for _, lock := range s.Locks {
		if lock.Database == s.Database && strings.HasPrefix(lock.Key, begun) && len(lock.Names) < 2 {
			keys = append(keys, view.Printable(lock.Key)+"\t"+fmt.Sprintf("%d waiting", len(lock.Waiters)))
		}
	}
	return keys
}

// completeWith makes the shell complete a flag's value to the results of a function.
func completeWith(cmd *cobra.Command, flag string, find func(cmd *cobra.Command, begun string) []string) {
	err := cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		return find(cmd, begun), cobra.ShellCompDirectiveNoFileComp
	})
	if err != nil {
		panic(err) // only if the flag does not exist
	}
}

// serviceNames returns the services of the service file that connections use.
func serviceNames(_ *cobra.Command, begun string) (names []string) {
	path := os.Getenv("PGSERVICEFILE")
	if home, err := os.UserHomeDir(); path == "" && err == nil {
		path = filepath.Join(home, ".pg_service.conf")
	}
	file, err := pgservicefile.ReadServicefile(path)
	if err != nil {
		return nil
	}
	for _, service := range file.Services {
		if strings.HasPrefix(service.Name, begun) {
			names = append(names, view.Printable(service.Name))
		}
	}
	return names
}

// completePIDs completes an argument to the process IDs of the sessions in a snapshot.
func (d *dsn) completePIDs(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	var pids []string
	if s := d.completionSnapshot(cmd); s != nil && len(args) == 0 {
		for session := range s.Sessions() {
			if pid := fmt.Sprint(session.PID); !session.Prepared() && strings.HasPrefix(pid, begun) {
				pids = append(pids, pid+"\t"+view.Printable(session.Application))
			}
		}
	}
	return pids, cobra.ShellCompDirectiveNoFileComp
}
