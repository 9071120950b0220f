package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/job"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/journal"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/term"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/internal/monitordb"
	"github.com/pglock-toolkit/pglock/monitor"
)

const monitorHelp = `Show the advisory locks of a server: who holds which, who waits for whom, and
since when.

It needs no rights and nothing installed. If schema pglock is installed, it
shows names instead of numbers; members of pg_read_all_stats also see the
clients, states and queries of other roles. Columns your role may not see are
marked (hidden), or ? if that is not known.

The table lists contended locks first, and shows the state of a blocking holder.
BLOCKED BY lists the sessions that a waiter waits for: holders of the lock and,
marked with ~, waiters ahead in the queue; +2 means two more. The table has the
keys of all databases of the server; names are known only in the database that
you connect to. A prepared transaction has no process, but an identifier for
ROLLBACK PREPARED. Waits for locks of other types are shown where they are part
of a chain with an advisory lock; with --all every wait is shown, recorded and
checked. Without it, the others are counted.

On a terminal it is a full-screen view: keys, the blocking tree and sessions,
with trends, filters and details. It can cancel and terminate sessions unless
--read-only is given; a shows waits of every kind, as --all does, and ? lists
all keyboard commands. Every signal is logged to standard error, on exit if that
is the terminal. NO_COLOR is respected; with TERM=dumb it prints instead.

Without a terminal, and with --output, it prints each snapshot: as a table, or
as JSON (ndjson: on one line). If the server goes away, pglock says so on
standard error, or in the view, and continues when it is back.

With --record FILE it records all snapshots, for "pglock replay" and "pglock
report"; without a terminal and --output it does nothing else. Files have mode
0600; a full file is renamed with the time as a suffix, and a new one is
started. Statements are recorded only with --record-queries: they can contain
data.

With --http ADDRESS it serves a read-only page with the tree, the journal and a
timeline. Only the URL that it prints opens the page. Beyond loopback it needs
TLS, or --insecure-http.

With --on-event it tells a command of these events, and without --http,
--record, --events and --output it does nothing else. A group of events is
delivered at once, and the next one after --notify-every, with all that happened
meanwhile. COMMAND is split at spaces and started without a shell. It gets the
events on its standard input as with --events -o ndjson, and a text of some
lines in PGLOCK_TEXT; after 30 seconds it is killed. Both contain names that
other roles chose: pass them on as data only.

With --events it prints one line for each event of contended keys: acquired,
passed on, released, wait began and ended, deadlock, session ended; with -o
ndjson as JSON. Events are computed from one snapshot to the next, so a lock or
wait that begins and ends within an --interval is missed.

A name in a comment or string of a session's query is used if its hash is the
key. A key without a name that a known tool uses is marked as probably or
possibly that tool's.

With --fail-if-waiting or --warn-if-waiting it prints one line as a Nagios
plugin does. The exit code is 0 OK, 1 WARNING or 2 CRITICAL if a session has
waited that long for a lock of any type that is shown, and 3 UNKNOWN if the
length of a wait is not known. Waits of candidates for an election, for a permit
of a semaphore and for the run of a job are expected, and do not count.

Exit codes otherwise: 0 done, or ended by Ctrl-C or SIGTERM; 69 no database; 64
wrong usage.`

type watch struct {
	dsn      dsn
	output   format
	once     bool
	interval seconds
	keys     []string
	waiting  bool
	all      bool
	readOnly bool
	only     view.Filter
	check    check
	options  []monitor.Option // set by the flags
	events   bool
	record   recordFlags
	http     httpFlags
	notify   notifyFlags
	quiet    bool // only the notifiers get events, and nothing is printed
}

func newMonitor() *cobra.Command {
	m := watch{interval: seconds(time.Second)}
	cmd := &cobra.Command{
		Use:   "monitor [DATABASE]",
		Short: "Show who holds which lock, and who waits for whom",
		Long:  monitorHelp,
		Example: `  pglock monitor
  pglock monitor --waiting --interval 5s
  pglock monitor --once -o json --key invoice:42 | jq '.locks[].holders[].pid'
  pglock monitor --once --fail-if-waiting 30s`,
		Args: arguments(0, 1, "one database"),
		RunE: m.command,
	}
	m.dsn.addTo(cmd)
	m.output.addTo(cmd, formatNDJSON)
	m.check.addTo(cmd)
	m.record.addTo(cmd)
	m.http.addTo(cmd)
	m.notify.addTo(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&m.once, "once", false, "show one snapshot and exit")
	flags.Var(&m.interval, "interval", "take a snapshot every `duration`")
	flags.StringArrayVar(&m.keys, "key", nil, "show only this `KEY`; may be repeated")
	flags.BoolVar(&m.waiting, "waiting", false, "show only contended locks")
	flags.BoolVar(&m.all, "all", false, "show waits of every kind, also without any advisory lock")
	flags.BoolVar(&m.events, "events", false, "print events of contended keys instead of snapshots")
	flags.BoolVar(&m.readOnly, "read-only", false, "disable the keys that cancel and terminate sessions")
	addSessionFilter(cmd, &m.only)
	m.dsn.addPsqlTo(cmd)
	return cmd
}

func addSessionFilter(cmd *cobra.Command, filter *view.Filter) {
	flags := cmd.Flags()
	flags.StringArrayVar(&filter.Databases, "database", nil, "show only locks in this `DATABASE`; may be repeated")
	flags.StringArrayVar(&filter.Users, "user", nil, "show only locks that sessions of this `ROLE` hold or wait for")
	flags.StringArrayVar(&filter.Applications, "application", nil,
		"show only locks that sessions with this `application_name` hold or wait for")
}

var errNoDatabase = errors.New("the server has no database")

// checkDatabases returns an error that matches errNoDatabase if the filter names one that the server does not have.
func checkDatabases(ctx context.Context, pool *pgxpool.Pool, filter view.Filter) error {
	if len(filter.Databases) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	missing, err := monitordb.New(pool).MissingDatabases(ctx, filter.Databases)
	if err == nil && len(missing) > 0 {
		err = fmt.Errorf("--database: %w %q", errNoDatabase, missing[0])
	}
	return err
}

func (m *watch) command(cmd *cobra.Command, args []string) error {
	if err := m.dsn.addDatabaseArgument(cmd, args); err != nil {
		return err
	}
	filter, err := m.filter(cmd)
	if err != nil {
		return err
	}
	if err := m.notify.prepare(cmd, m.once); err != nil {
		return err
	}
	if m.check.wanted(cmd) {
		return m.runCheck(cmd, filter)
	}
	m.quiet = m.notify.wanted() && !cmd.Flags().Changed("output") && !m.events
	defer m.notify.start()()
	db, err := m.dsn.resolve(cmd)
	if err != nil {
		return err
	}
	m.readOptions(db)
	if err := errors.Join(m.record.check(cmd, m.once), m.http.check(cmd, m.once)); err != nil {
		return err
	}
	if m.output != formatTable && term.Is(os.Stderr) {
		say(os.Stderr, "%s", db.target)
	}
	if m.isView() && !m.readOnly {
		db.keep = 2 // for snapshots and signals: a server whose connections are all taken can still be cleaned
	}
	_, err = job.While(cmd.Context(), job.Catch(), func(ctx context.Context) (struct{}, error) {
		pool, err := db.pool(ctx, "pglock monitor")
		if err != nil {
			return struct{}{}, err
		}
		defer pool.Close()
		switch err := checkDatabases(ctx, pool, filter); {
		case !errors.Is(err, errNoDatabase): // another error is met again
		case m.once:
			return struct{}{}, &exit{codeUsage, db.failed(err)}
		default:
			say(os.Stderr, "%v", db.failed(err)) // it may be made later
		}
		if m.once {
			return struct{}{}, m.showOnce(ctx, db, pool, filter)
		}
		return struct{}{}, m.observe(ctx, cmd, db, pool, filter)
	})
	if _, stopped := errors.AsType[*job.Stopped](err); stopped && !m.once {
		return nil // there is no other way to end it
	}
	return err
}

// observe shows snapshots from now on, and records them if asked to.
func (m *watch) observe(ctx context.Context, cmd *cobra.Command, db database, pool *pgxpool.Pool, filter view.Filter) error {
	o := newObserver(pool, db.flags, m.options)
	var err error
	if o.recorder, err = m.beginRecording(db.target); err != nil {
		return err
	}
	switch {
	case m.http.address != "":
		err = m.serve(ctx, db, o, filter)
	case m.fillsScreen():
		err = m.fillScreen(ctx, db, o, filter)
	case m.quiet || m.record.path != "" && !cmd.Flags().Changed("output") && !m.events:
		err = m.printErrors(ctx, db, o, filter)
	default:
		err = m.showAll(ctx, db, o, filter)
	}
	return errors.Join(err, o.recorder.close())
}

func (m *watch) filter(cmd *cobra.Command) (view.Filter, error) {
	filter := m.only
	filter.Waiting = m.waiting
	switch {
	case m.interval == 0:
		return filter, misuse(cmd, "--interval must be more than 0")
	case m.once && cmd.Flags().Changed("interval"):
		return filter, misuse(cmd, "--once contradicts --interval")
	case m.events && m.once:
		return filter, misuse(cmd, "--events contradicts --once: events happen between two snapshots")
	case m.check.wanted(cmd) && !m.once:
		return filter, misuse(cmd, "--warn-if-waiting and --fail-if-waiting need --once")
	case m.check.wanted(cmd) && cmd.Flags().Changed("output"):
		return filter, misuse(cmd, "--warn-if-waiting and --fail-if-waiting contradict --output")
	case m.check.neverWarns(cmd):
		return filter, misuse(cmd, "--warn-if-waiting must be less than --fail-if-waiting, or it never warns")
	}
	keys, err := parseKeys(cmd, m.keys)
	filter.Keys = keys
	return filter, err
}

// isView reports whether the command shows the full-screen view.
func (m *watch) isView() bool { return !m.once && m.http.address == "" && m.fillsScreen() }

// readOptions sets what is asked of the server. In the view a key decides about waits of every kind, and on the page a
// switch.
func (m *watch) readOptions(db database) {
	if m.all && !m.isView() || m.http.address != "" {
		m.options = append(m.options, monitor.WithAllWaits())
	}
	m.options = db.options(m.options)
}

func (m *watch) showOnce(ctx context.Context, db database, pool *pgxpool.Pool, filter view.Filter) error {
	snapshot, err := monitor.Take(ctx, pool, m.options...)
	if err != nil {
		return db.failed(err)
	}
	return m.printer(db, filter).show(snapshot)
}

// showAll fails if it cannot take the first snapshot. The user has most likely named the wrong server then.
func (m *watch) showAll(ctx context.Context, db database, o *observer, filter view.Filter) error {
	return m.follow(ctx, db, o, filter, m.printer(db, filter))
}

func (m *watch) follow(ctx context.Context, db database, o *observer, filter view.Filter, p *printer) error {
	first := true
	return o.watch(ctx, time.Duration(m.interval), func(s *monitor.Snapshot, events []journal.Event, err error) error {
		wasFirst := first
		first = false
		switch {
		case err != nil && wasFirst:
			return db.failed(err)
		case err != nil:
			p.missed(err)
			return nil
		}
		m.notify.add(filter, events)
		return m.print(p, filter, s, events)
	})
}
