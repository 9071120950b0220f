package cli

import (
	"context"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/term"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/monitor"
)

const monitorHelp = `On a terminal it is a view that fills the screen, in which ? lists all keys; it
opens on the tree of blockers if anything waits. Otherwise, with TERM=dumb and
with --once it prints the tree and the contended keys once.

It needs no rights and nothing installed. With schema pglock it shows locks in
rows, and in place of numbers the names that programs recorded (WithNames).
Members of pg_read_all_stats also see the clients, states and queries of other
roles. What the role may not see is marked (hidden), or ? if it is not known.

Waits for locks of every type are shown: tables, rows, transactions, advisory
locks. --advisory leaves out those that have nothing to do with an advisory
lock. A blocker with ~ does not hold the lock, but is ahead in the queue.

The view cancels and terminates sessions, after a preview and a question, unless
--read-only is given, in the dialog of pglock cancel and pglock terminate.

Exit codes: 0 done; 69 no database; 64 wrong usage.`

// monitorRun is one call of monitor.
type monitorRun struct {
	dsn      *dsn
	filters  filters
	output   format
	once     bool
	interval seconds
	readOnly bool
}

func newMonitor(server *dsn) *cobra.Command {
	m := monitorRun{dsn: server, interval: seconds(time.Second)}
	cmd := &cobra.Command{
		Use:   "monitor [DATABASE]",
		Short: "Show who holds which lock, who waits for whom, and what to do about it",
		Long:  monitorHelp,
		Example: `  pglock monitor
  pglock monitor -d postgres://db1/shop --once
  pglock monitor -o json | jq '.locks[].holders[].pid'`,
		Args: arguments(0, 1, "one database"),
		RunE: m.command,
	}
	m.filters.addTo(cmd)
	m.filters.addAdvisoryTo(cmd)
	m.output.addTo(cmd, formatText, formatJSON)
	flags := cmd.Flags()
	flags.BoolVar(&m.once, "once", false, "print once, also on a terminal")
	flags.Var(&m.interval, "interval", "in the view: take a snapshot every `duration`")
	flags.BoolVar(&m.readOnly, "read-only", false, "in the view: disable the keys that cancel and terminate sessions")
	return cmd
}

func (m *monitorRun) command(cmd *cobra.Command, args []string) error {
	filter, err := m.filters.filter(cmd)
	if err != nil {
		return err
	}
	if m.interval == 0 {
		return misuse(cmd, "--interval must be more than 0")
	}
	isView := !m.once && m.output == formatText && fillsScreen()
	if isView && !m.readOnly {
		m.dsn.keep = 2 // for snapshots and signals: a server whose connections are all taken can still be cleaned
	}
	err = m.dsn.withPool(cmd, args, "pglock monitor", func(ctx context.Context, db database, pool *pgxpool.Pool) error {
		if isView {
			return m.fillScreen(ctx, db, pool, filter)
		}
		return m.showOnce(ctx, db, pool, filter)
	})
	if isView {
		return unlessStopped(err)
	}
	return err
}

func (m *monitorRun) showOnce(ctx context.Context, db database, pool *pgxpool.Pool, filter view.Filter) error {
	snapshot, err := inTime(ctx, func(ctx context.Context) (*monitor.Snapshot, error) {
		return monitor.Take(ctx, pool, m.filters.options(db)...)
	})
	if err != nil {
		return db.failed(err)
	}
	return printSnapshot(os.Stdout, m.output, snapshot, filter, view.Server{Target: db.target, Flags: db.flags})
}

// printSnapshot writes what the filter shows of a snapshot.
func printSnapshot(w io.Writer, output format, s *monitor.Snapshot, filter view.Filter, on view.Server) error {
	switch output {
	case formatJSON:
		return view.JSON(w, filter.Apply(s), filter.Action(s))
	case formatNDJSON:
		return view.NDJSON(w, filter.Apply(s), filter.Action(s))
	}
	_, err := io.WriteString(w, lines(view.Table(s, filter, on, tableWidth())))
	return err
}

// unlimited is larger than the width of any table.
const unlimited = 1 << 16

// tableWidth returns the width of the terminal, or COLUMNS. It is unlimited if the output is not a terminal.
func tableWidth() int {
	if !term.Is(os.Stdout) && os.Getenv("COLUMNS") == "" {
		return unlimited
	}
	return width()
}

// width returns the width of the terminal, or COLUMNS, or 80.
func width() int {
	if columns, _, ok := term.Size(os.Stdout); ok && columns > 0 {
		return columns
	}
	if columns, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && columns > 0 {
		return columns
	}
	return 80
}
