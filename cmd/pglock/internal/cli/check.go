package cli

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/monitor"
)

const checkHelp = `It prints one line, as a Nagios plugin does, within five seconds: what waits,
what to do about it, and performance data.

Exit codes: 0 OK; 1 WARNING or 2 CRITICAL if a session has waited that long for
a lock of any type; 2 also for a deadlock; 3 UNKNOWN if it could not look at all
of it: no answer, a missing right, or flags that are wrong. If only one of the
limits is given, the other does not apply.

Waits of candidates for an election, for a permit of a semaphore and for the run
of a job are expected, and do not count.`

// checkRun is one call of check.
type checkRun struct {
	dsn        *dsn
	filters    filters
	warn, fail seconds
}

func newCheck(server *dsn) *cobra.Command {
	c := checkRun{dsn: server, warn: seconds(10 * time.Second), fail: seconds(time.Minute)}
	cmd := &cobra.Command{
		Use:   "check [DATABASE]",
		Short: "Check for long waits and deadlocks, for Nagios and the like",
		Long:  checkHelp,
		Example: `  pglock check
  pglock check -d postgres://db1/shop --warning 30s --critical 5m
  pglock check --key nightly-report --critical 1h`,
		Args: cobra.ArbitraryArgs, // wrong ones are UNKNOWN too
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		verdict, line, err := c.verdict(cmd, args)
		if err != nil {
			return unknown(err)
		}
		return exitWith(verdict, line)
	}
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return unknown(misuse(cmd, "%w", err)) })
	flags := cmd.Flags()
	flags.VarP(&c.warn, "warning", "w", "WARNING if a session has waited longer than `duration`")
	flags.VarP(&c.fail, "critical", "c", "CRITICAL if a session has waited longer than `duration`")
	c.filters.addTo(cmd)
	c.filters.addAdvisoryTo(cmd)
	return cmd
}

func (c *checkRun) verdict(cmd *cobra.Command, args []string) (view.Verdict, string, error) {
	if len(args) > 1 {
		return view.Unknown, "", misuse(cmd, "expected one database")
	}
	filter, err := c.filters.filter(cmd)
	if err != nil {
		return view.Unknown, "", err
	}
	limits, err := c.limits(cmd)
	if err != nil {
		return view.Unknown, "", err
	}
	verdict, line := view.Unknown, ""
	err = c.dsn.withPool(cmd, args, "pglock check", func(ctx context.Context, db database, pool *pgxpool.Pool) error {
		s, err := inTime(ctx, func(ctx context.Context) (*monitor.Snapshot, error) {
			return monitor.Take(ctx, pool, c.filters.options(db)...)
		})
		if err != nil {
			return db.failed(err)
		}
		verdict, line = view.Status(s, filter, limits, db.flags)
		return nil
	})
	return verdict, line, err
}

func (c *checkRun) limits(cmd *cobra.Command) (limits view.Limits, err error) {
	warn, fail := cmd.Flags().Changed("warning"), cmd.Flags().Changed("critical")
	if warn || !fail {
		limits.Warn = (*time.Duration)(&c.warn)
	}
	if fail || !warn {
		limits.Fail = (*time.Duration)(&c.fail)
	}
	if limits.Warn != nil && limits.Fail != nil && *limits.Warn >= *limits.Fail {
		return limits, misuse(cmd, "--warning must be less than --critical, or it never warns")
	}
	return limits, nil
}

// unknown prints the line of a check that could not look.
func unknown(err error) error {
	return exitWith(view.Unknown, view.StatusLine(view.Unknown, oneLine(err.Error())))
}

// exitWith prints the line of a check, and returns the exit code of the verdict as an error, or nil for 0.
func exitWith(verdict view.Verdict, line string) error {
	if _, err := fmt.Fprintln(os.Stdout, view.ForTerminal(line)); err != nil || verdict == view.OK {
		return err
	}
	return &exit{code: int(verdict)}
}
