package cli

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/job"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/monitor"
)

// check holds the flags that make pglock monitor a Nagios plugin.
type check struct {
	warn, fail      seconds
	ignoreDeadlocks bool
}

func (c *check) addTo(cmd *cobra.Command) {
	cmd.Flags().Var(&c.fail, "fail-if-waiting",
		"with --once: be CRITICAL when a session has waited longer than `duration`")
	cmd.Flags().Var(&c.warn, "warn-if-waiting",
		"with --once: be a WARNING when a session has waited longer than `duration`")
	cmd.Flags().BoolVar(&c.ignoreDeadlocks, "ignore-deadlocks", false,
		"with --fail-if-waiting: count deadlocks without being CRITICAL for them")
}

func (c *check) wanted(cmd *cobra.Command) bool {
	return cmd.Flags().Changed("fail-if-waiting") || cmd.Flags().Changed("warn-if-waiting")
}

// neverWarns reports whether everything that could be a WARNING is already CRITICAL.
func (c *check) neverWarns(cmd *cobra.Command) bool {
	return cmd.Flags().Changed("fail-if-waiting") && cmd.Flags().Changed("warn-if-waiting") && c.warn >= c.fail
}

func (c *check) limits(cmd *cobra.Command) (limits view.Limits) {
	limits.IgnoreDeadlocks = c.ignoreDeadlocks
	if cmd.Flags().Changed("warn-if-waiting") {
		limits.Warn = (*time.Duration)(&c.warn)
	}
	if cmd.Flags().Changed("fail-if-waiting") {
		limits.Fail = (*time.Duration)(&c.fail)
	}
	return limits
}

// runCheck always prints one line, since monitoring systems show only that.
func (m *watch) runCheck(cmd *cobra.Command, filter view.Filter) error {
	db, err := m.dsn.resolve(cmd)
	var snapshot *monitor.Snapshot
	if err == nil {
		m.readOptions(db)
		snapshot, err = m.checkServer(cmd, db, filter)
	}
	if err != nil {
		return exitWith(view.Unknown, view.StatusLine(view.Unknown, oneLine(err.Error())))
	}
	return exitWith(view.Status(snapshot, filter, m.check.limits(cmd), db.flags))
}

func (m *watch) checkServer(cmd *cobra.Command, db database, filter view.Filter) (*monitor.Snapshot, error) {
	return job.While(cmd.Context(), job.Catch(), func(ctx context.Context) (*monitor.Snapshot, error) {
		pool, err := db.pool(ctx, "pglock monitor")
		if err != nil {
			return nil, err
		}
		defer pool.Close()
		ctx, cancel := context.WithTimeout(ctx, checkTimeout)
		defer cancel()
		snapshot, err := monitor.Take(ctx, pool, m.options...)
		if err == nil {
			err = checkDatabases(ctx, pool, filter) // without them all is well
		}
		if err != nil {
			return nil, db.failed(err)
		}
		return snapshot, nil
	})
}

// checkTimeout bounds a check of a server that accepts connections and then does not answer. Monitoring systems give up
// soon after it.
const checkTimeout = 30 * time.Second

// exitWith returns the exit code of the verdict as an error, or nil for 0.
func exitWith(verdict view.Verdict, line string) error {
	if _, err := fmt.Fprintln(os.Stdout, line); err != nil || verdict == view.OK {
		return err
	}
	return &exit{code: int(verdict)}
}
