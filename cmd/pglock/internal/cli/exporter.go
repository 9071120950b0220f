package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/pglock-toolkit/pglock/cmd/pglock/grafana"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/exporter"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/job"
	"github.com/pglock-toolkit/pglock/monitor"
)

const exporterHelp = `Serve metrics about the advisory locks of a server to Prometheus, until Ctrl-C
or SIGTERM. A scrape of /metrics takes a snapshot, as "pglock monitor" does;
concurrent scrapes, and those within --min-interval, share one. /healthz says
that the exporter works; pglock_up says whether the server answers.

  pglock_up, pglock_server_info, pglock_exporter_build_info
  pglock_locks, pglock_holders, pglock_waiters, pglock_oldest_wait_seconds,
    pglock_prepared_holders, pglock_oldest_holder_seconds,
    pglock_idle_blocker_seconds              by database
  pglock_key_holders, pglock_key_waiters, pglock_key_oldest_wait_seconds,
    pglock_key_oldest_holder_seconds         by database and key (its number)
  pglock_key_info                            by database, key and name
  pglock_row_locks, pglock_row_holders, pglock_row_waiters,
    pglock_row_oldest_wait_seconds, pglock_row_oldest_holder_seconds,
    pglock_row_lease_left_seconds, pglock_row_locks_readable
                                             locks in rows, by database
  pglock_row_key_…, as pglock_key_…          locks in rows, by database and key
  pglock_waits_total, pglock_wait_seconds_total
                             with --sample, by database, key and application
  pglock_other_waiters, pglock_oldest_other_wait_seconds
                                             tables, rows and transactions
  pglock_deadlocks                           by certainty (certain, possible)
  pglock_oldest_snapshot_transactions        what holds back vacuum
  pglock_lock_table_entries, pglock_lock_table_advisory_entries,
    pglock_lock_table_nominal_entries
  pglock_scrape_duration_seconds, pglock_snapshot_timestamp_seconds,
    pglock_snapshots_total, pglock_snapshot_errors_total

Series by key are for contended keys: a key gets its series when it has a waiter
and fewer than --max-keys keys have one. It loses it after an hour without
waiters, if another key needs it. All other keys share the series "other". Waits
of candidates for an election, for a permit of a semaphore and for the run of a
job are expected: they count as waiters, but not as long waits. Sessions that
have nothing to do with an advisory lock are only counted, unless --all has them
looked at, too. pglock_oldest_other_wait_seconds and pglock_idle_blocker_seconds
are never 0 because of that, but missing; the alerts about them need --all.

Locks in rows need SELECT on pglock.row_locks and pglock.fence, and
--trust-owner if another role owns the schema. Without these only
pglock_row_locks_readable is left of their series, and the log says why.

Gauges show no wait that begins and ends between two scrapes. With --sample 1s
a snapshot is taken every second, and the counters say how many waits the
snapshots showed, and how long these had lasted when they were last shown, from
their beginning. Waits of less than the period can be missing. At most 100 keys
and 50 applications have their own label, those that wait first; the others
share the label "other".

There is no encryption and no password: listen on loopback, or behind a proxy
that adds them. On loopback it answers only requests for a loopback host, such
as localhost. Labels contain names that other roles chose, with any character:
escape them before you print them.

--dashboard writes a dashboard for Grafana and exits; --rules does the same with
alerts for Prometheus: long waits, old holders that others wait for, deadlocks,
sessions that are idle in transaction and block others, prepared holders, a full
lock table, no answer. Edit the file to change the thresholds.

Exit codes: 0 ended by Ctrl-C or SIGTERM; 64 wrong usage; 1 other errors, such
as an address in use. The exporter keeps running while the database is
unreachable.`

// exporterRun is one call of exporter.
type exporterRun struct {
	dsn         dsn
	listen      string
	maxKeys     keyCount
	minInterval seconds
	sample      seconds
	dashboard   bool
	rules       bool
	all         bool
}

func newExporter() *cobra.Command {
	e := exporterRun{maxKeys: 50, minInterval: seconds(time.Second)}
	cmd := &cobra.Command{
		Use:   "exporter [DATABASE]",
		Short: "Serve metrics about locks to Prometheus",
		Long:  exporterHelp,
		Example: `  pglock exporter
  pglock exporter --listen 127.0.0.1:9000
  pglock exporter --dashboard > pglock.json
  pglock exporter --rules > pglock.rules.yml`,
		Args: arguments(0, 1, "one database"),
		RunE: e.command,
	}
	e.dsn.addTo(cmd)
	e.dsn.addPsqlTo(cmd)
	flags := cmd.Flags()
	flags.StringVar(&e.listen, "listen", "127.0.0.1:19187", "serve on this `HOST:PORT`; port 0 picks a free one")
	flags.Var(&e.maxKeys, "max-keys", "give at most this many keys their own series")
	flags.Var(&e.minInterval, "min-interval", "reuse a snapshot that is not older than this `duration`")
	flags.Var(&e.sample, "sample", "count waits, by snapshots in each `period`, such as 1s (default off)")
	flags.BoolVar(&e.all, "all", false, "look at waits of every kind, also without any advisory lock")
	flags.BoolVar(&e.dashboard, "dashboard", false, "write a dashboard for Grafana and exit")
	flags.BoolVar(&e.rules, "rules", false, "write alerting rules for Prometheus and exit")
	return cmd
}

// keyCount is the value of --max-keys.
type keyCount uint16

func (c *keyCount) Set(text string) error {
	const most = 10_000
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n > most {
		return fmt.Errorf("want a number between 0 and %d", most)
	}
	*c = keyCount(n)
	return nil
}

func (c *keyCount) String() string { return strconv.Itoa(int(*c)) }
func (c *keyCount) Type() string   { return "N" }

func (e *exporterRun) command(cmd *cobra.Command, args []string) error {
	if err := e.dsn.addDatabaseArgument(cmd, args); err != nil {
		return err
	}
	if e.rules {
		_, err := cmd.OutOrStdout().Write(exporter.Rules)
		return err
	}
	if e.dashboard {
		_, err := cmd.OutOrStdout().Write(grafana.Dashboard)
		return err
	}
	if sample := time.Duration(e.sample); sample > 0 && sample < leastSample {
		return misuse(cmd, "--sample %v: it must be at least %v", sample, leastSample)
	}
	db, err := e.dsn.resolve(cmd)
	if err != nil {
		return err
	}
	if _, _, err := net.SplitHostPort(e.listen); err != nil {
		return misuse(cmd, "--listen: want HOST:PORT, such as 127.0.0.1:19187")
	}
	_, err = job.While(cmd.Context(), job.Catch(), func(ctx context.Context) (struct{}, error) {
		return struct{}{}, e.serve(ctx, db)
	})
	if _, stopped := errors.AsType[*job.Stopped](err); stopped {
		return nil // there is no other way to end it
	}
	return err
}

// leastSample is the shortest period of --sample, as that of monitor --interval.
const leastSample = 100 * time.Millisecond

func (e *exporterRun) serve(ctx context.Context, db database) error {
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	var options []monitor.Option
	if e.all {
		options = append(options, monitor.WithAllWaits())
	}
	pool, err := db.pool(ctx, "pglock exporter")
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := db.checkTrusted(ctx, pool); err != nil {
		return err
	}
	watcher := monitor.NewWatcher(pool, db.options(options)...)
	o := exporter.Options{MaxKeys: int(e.maxKeys), MinInterval: time.Duration(e.minInterval), Version: moduleVersion(),
		Sample: time.Duration(e.sample), Logger: logger}
	o.Take = func(ctx context.Context) (*monitor.Snapshot, error) {
		s, err := watcher.Take(ctx)
		if err != nil {
			return nil, db.failed(err)
		}
		return s, nil
	}
	listener, err := net.Listen("tcp", e.listen)
	if err != nil {
		return &exit{codeOther, fmt.Errorf("serve metrics: %w", err)}
	}
	say(os.Stderr, "%s: metrics are at http://%s/metrics", db.target, listener.Addr())
	return exporter.Serve(ctx, listener, exporter.New(ctx, o))
}
