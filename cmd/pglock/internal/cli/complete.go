package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/monitor"
)

// completionTimeout is how long a user who pressed Tab waits for the server.
const completionTimeout = 2 * time.Second

// peek takes a snapshot for a completion; nil when there is none to be had.
func (d *dsn) peek(cmd *cobra.Command) *monitor.Snapshot {
	db, err := d.resolve(cmd)
	if err != nil {
		return nil
	}
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

// completeKeys makes the shell complete a flag to the keys that are held or waited for.
func (d *dsn) completeKeys(cmd *cobra.Command, flag string) {
	err := cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		var keys []string
		if s := d.peek(cmd); s != nil {
			for _, lock := range s.Locks {
				if lock.Database == s.Database && strings.HasPrefix(lock.Key, begun) && len(lock.Names) < 2 {
					keys = append(keys, view.Printable(lock.Key)+"\t"+fmt.Sprintf("%d waiting", len(lock.Waiters)))
				}
			}
		}
		return keys, cobra.ShellCompDirectiveNoFileComp
	})
	if err != nil {
		panic(err) // the flag was not added before
	}
}

// completePIDs completes an argument to the process IDs of the sessions that a snapshot has.
func (d *dsn) completePIDs(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	var pids []string
	if s := d.peek(cmd); s != nil && len(args) == 0 {
		for session := range s.Sessions() {
			if pid := fmt.Sprint(session.PID); !session.Prepared() && strings.HasPrefix(pid, begun) {
				pids = append(pids, pid+"\t"+view.Printable(session.Application))
			}
		}
	}
	return pids, cobra.ShellCompDirectiveNoFileComp
}
