package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/journal"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/notify"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/recording"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/monitor"
)

const watchHelp = `It prints a line for each event until Ctrl-C or SIGTERM: a wait began or ended,
a key was acquired, passed on or released, a deadlock, a session ended. Events
are computed from one snapshot to the next: what begins and ends within an
--interval is missed. If the server goes away, it says so and goes on when it is
back.

--on-event starts a command with the events on its standard input, as with
-o ndjson, and a text of some lines in PGLOCK_TEXT: at once, then at most every
ten seconds with all that happened meanwhile. COMMAND is split at spaces and
started without a shell; after 30 seconds it is killed. Both contain names that
other roles chose: pass them on as data only.

--record keeps all snapshots in a file, for "pglock replay" and "pglock report".
Files have mode 0600; a full one is renamed with the time as a suffix.
Statements are recorded only with --record-queries, since they can contain data.

Exit codes: 0 ended by Ctrl-C or SIGTERM; 69 no database at the start; 64 wrong
usage.`

// notifyEvery is the least time between two starts of the command.
const notifyEvery = 10 * time.Second

// watchRun is one call of watch.
type watchRun struct {
	dsn      *dsn
	filters  filters
	output   format
	interval seconds
	onEvent  string
	record   recordFlags
	notifier *notify.Notifier // nil without a command
}

// recordFlags say what to record, and where.
type recordFlags struct {
	path    string
	queries bool
	size    int64 // megabytes
}

func newWatch(server *dsn) *cobra.Command {
	w := watchRun{dsn: server, interval: seconds(time.Second)}
	cmd := &cobra.Command{
		Use:   "watch [DATABASE]",
		Short: "Print what happens to locks, tell a command of it, and record it",
		Long:  watchHelp,
		Example: `  pglock watch
  pglock watch --record locks.rec --on-event ./page-me
  pglock watch -o ndjson --key invoice:42 | jq .event`,
		Args: arguments(0, 1, "one database"),
		RunE: w.command,
	}
	w.output.addTo(cmd, formatText, formatNDJSON)
	flags := cmd.Flags()
	flags.Var(&w.interval, "interval", "take a snapshot every `duration`")
	flags.StringVar(&w.onEvent, "on-event", "", "start `COMMAND` with the events on its standard input")
	flags.StringVar(&w.record.path, "record", "", "record all snapshots in `FILE`")
	flags.BoolVar(&w.record.queries, "record-queries", false, "record the texts of statements too")
	flags.Int64Var(&w.record.size, "record-size", 1000, "keep at most `MB` megabytes: the oldest files are removed")
	w.filters.addTo(cmd)
	w.filters.addAdvisoryTo(cmd)
	return cmd
}

func (w *watchRun) command(cmd *cobra.Command, args []string) error {
	filter, err := w.filters.filter(cmd)
	if err != nil {
		return err
	}
	if err := w.check(cmd); err != nil {
		return err
	}
	defer w.deliver()()
	err = w.dsn.withPool(cmd, args, "pglock watch", func(ctx context.Context, db database, pool *pgxpool.Pool) error {
		return w.follow(ctx, db, pool, filter)
	})
	return unlessStopped(err)
}

func (w *watchRun) check(cmd *cobra.Command) error {
	switch {
	case w.interval == 0:
		return misuse(cmd, "--interval must be more than 0")
	case cmd.Flags().Changed("record") && w.record.path == "":
		return misuse(cmd, "--record is empty")
	case w.record.size <= 0:
		return misuse(cmd, "--record-size must be more than 0")
	case w.onEvent == "":
		return nil
	}
	command, err := notify.ParseCommand(w.onEvent)
	if err != nil {
		return misuse(cmd, "--on-event: %w", err)
	}
	w.notifier = notify.New(command, notifyEvery, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	return nil
}

// deliver starts deliveries to the command. The returned function ends them when there are no further events, after what is
// left.
func (w *watchRun) deliver() (stop func()) {
	if w.notifier == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background()) // it ends after the last event
	var running sync.WaitGroup
	running.Go(func() { w.notifier.Run(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}

// follow fails if it cannot take the first snapshot. The user has most likely named the wrong server then.
func (w *watchRun) follow(ctx context.Context, db database, pool *pgxpool.Pool, filter view.Filter) error {
	o := newObserver(pool, db.flags, w.filters.options(db))
	if w.record.path != "" {
		writer, err := recording.NewWriter(w.record.path, w.about(db))
		if err != nil {
			return &exit{codeOther, err}
		}
		o.recorder = &recorder{writer: writer, queries: w.record.queries}
		say(os.Stderr, "recording %s in %s", db.target, w.record.path)
	} else {
		say(os.Stderr, "watching %s", db.target)
	}
	outage, first := newOutage(db, time.Duration(w.interval)), true
	defer outage.alarm.Stop()
	err := o.watch(ctx, time.Duration(w.interval), func(s *monitor.Snapshot, events []journal.Event, err error) error {
		if err != nil && first {
			return db.failed(err)
		}
		first = false
		if outage.note(err); err != nil {
			return nil
		}
		shown := filter.Events(s.Database, events)
		if w.notifier != nil {
			w.notifier.Add(shown)
		}
		return printEvents(os.Stdout, w.output, shown)
	})
	return errors.Join(err, o.recorder.close())
}

func (w *watchRun) about(db database) recording.WriterOptions {
	return recording.WriterOptions{
		About: recording.About{Program: "pglock " + moduleVersion(), Target: db.target, Queries: w.record.queries,
			Interval: time.Duration(w.interval).Seconds()},
		MaxSize: w.record.size << 20,
	}
}

// printEvents prints each event on a line.
func printEvents(to *os.File, output format, events []journal.Event) error {
	if output == formatText {
		return view.EventLines(to, events)
	}
	return view.EventsNDJSON(to, events)
}

// outage says once that a server has stopped answering, and once that it answers again. A snapshot that takes longer than three
// intervals is no answer.
type outage struct {
	db      database
	silence time.Duration

	mu    sync.Mutex // the alarm may ring while an answer comes
	alarm *time.Timer
	lost  bool
}

func newOutage(db database, interval time.Duration) *outage {
	o := &outage{db: db, silence: max(3*interval, time.Second)}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.alarm = time.AfterFunc(o.silence, func() { o.note(fmt.Errorf("no answer for %v", o.silence)) })
	return o
}

func (o *outage) note(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err == nil {
		o.alarm.Reset(o.silence)
	}
	switch {
	case err != nil && !o.lost:
		say(os.Stderr, "%v; trying again", o.db.failed(err))
	case err == nil && o.lost:
		say(os.Stderr, "%s answers again", o.db.target)
	}
	o.lost = err != nil
}
